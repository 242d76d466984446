package memstore

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// plainTicket returns a random ticket of a few groups, each with some of the limits.
func plainTicket(random *rand.Rand, meters []*algorithm.Meter, rule *storage.RuleHasher) *storage.Ticket {
	t := &storage.Ticket{MaxDelay: [...]time.Duration{0, time.Second, algorithm.AnyDelay}[random.IntN(3)]}
	keys := random.Perm(12)
	for i := range 1 + random.IntN(3) {
		g := storage.Group{Subject: rule.Subject(string(rune('a' + keys[i]))), Returnable: random.IntN(4) == 0}
		for _, at := range random.Perm(len(meters))[:1+random.IntN(3)] {
			g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[at], Cost: [...]int64{0, 1, 1, 1, 2, 9}[random.IntN(6)]})
		}
		t.Groups = append(t.Groups, g)
	}
	return t
}

// redate dates the counters of a ticket within their windows, as state is that a store adopts from another.
func redate(t *storage.Ticket, stores ...*Store) {
	for i := range t.Groups {
		for _, c := range t.Groups[i].Charges {
			if c.Meter.Kind != algorithm.KindCounter && c.Meter.Kind != algorithm.KindInterval {
				continue
			}
			for _, s := range stores {
				k, index := s.locate(&t.Groups[i].Subject, c.Meter)
				if at := s.shards[index].find(k); at != nil {
					start := at.at() - at.at()%algorithm.Instant(c.Meter.Window)
					date(at, start+algorithm.Instant(c.Meter.Window)-1, at.at()+at.life(), at.head&given != 0)
				}
			}
		}
	}
}

func meters(t *testing.T, limits []algorithm.Limit) (all []*algorithm.Meter) {
	for _, l := range limits {
		all = append(all, limit(t, l))
	}
	return all
}

// A plain ticket has the same outcome and leaves the same slots as it does through a workspace.
func TestPlainTicketsAreDecidedAlike(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 11))
		in, through := open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes})
		through.seed = in.seed
		rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
		all := meters(t, singleLimits())
		now := algorithm.Instant(random.Int64N(2) * 1_700_000_000_000_000) // at first, a window starts at 0
		answers := map[[2]bool]int{}
		for call := range 4000 {
			now += algorithm.Instant(random.Int64N(4_000_000))
			switch random.IntN(100) {
			case 0:
				now += algorithm.Instant(random.Int64N(1e12))
			case 1, 2:
				now -= min(now, algorithm.Instant(random.Int64N(1e11))) // clocks step back too
			}
			ticket := plainTicket(random, all, &rule)
			ticket.Now = max(1, now)
			if random.IntN(20) == 0 {
				redate(ticket, in, through)
			}
			var out, want storage.Outcome
			plain := in.takePlain(ticket, &out)
			if !plain {
				if err := in.takeMany(ticket, &out); err != nil {
					t.Fatal(err)
				}
			}
			if err := through.takeMany(ticket, &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(out, want) {
				t.Fatalf("seed %d, call %d, plain %t, at %d: %+v, through a workspace %+v", seed, call, plain, now, out, want)
			}
			if a, b := contents(in), contents(through); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, call %d, plain %t: slots differ:\n%+v\n%+v", seed, call, plain, a, b)
			}
			answers[[2]bool{plain, out.Allowed}]++
		}
		for _, kind := range [][2]bool{{true, true}, {true, false}, {false, true}} {
			if answers[kind] < 50 {
				t.Errorf("seed %d: only %d tickets were plain %t and allowed %t", seed, answers[kind], kind[0], kind[1])
			}
		}
	}
}

// Tickets that need more than a slot for each charge are not plain, and nothing is charged before that is known.
func TestTicketsThatAreNotPlain(t *testing.T) {
	rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
	fixed := meters(t, singleLimits())
	penalty, err := algorithm.PenaltyTerms{After: 3, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	over := func(l algorithm.Limit) algorithm.Charge { return algorithm.Charge{Meter: limit(t, l), Cost: 1} }
	for name, change := range map[string]func(*storage.Ticket){
		"denied elsewhere": func(t *storage.Ticket) { t.Denied = true },
		"alone":            func(t *storage.Ticket) { t.Groups[1].Alone = true },
		"reserved":         func(t *storage.Ticket) { t.Groups[1].Reserve = time.Minute },
		"guarded":          func(t *storage.Ticket) { t.Groups[1].Penalty = penalty },
		"overdrawn":        func(t *storage.Ticket) { t.Groups[1].Charges[0].Overdraw = true },
		"a log": func(t *storage.Ticket) {
			t.Groups[1].Charges[0] = over(algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 9, Window: time.Minute})
		},
		"a large counter": func(t *storage.Ticket) {
			t.Groups[1].Charges[0] = over(algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 32, Window: time.Second})
		},
		"a large counter that was small": func(t *storage.Ticket) {
			t.Groups[1].Charges[0] = over(algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 32, Window: time.Second, Ordinal: 1})
		},
		"a counter that was large": func(t *storage.Ticket) {
			t.Groups[1].Charges[0] = over(algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 9, Window: time.Second, Ordinal: 2})
		},
		"a new key": func(t *storage.Ticket) { t.Groups[1].Subject = rule.Subject("new") },
		"too many charges": func(t *storage.Ticket) {
			for i := range maxPlain {
				t.Groups[1].Charges = append(t.Groups[1].Charges, over(algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Duration(i+1) * time.Hour}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			ticket := &storage.Ticket{Nonce: 1, Groups: []storage.Group{
				{Subject: rule.Subject("a"), Charges: []algorithm.Charge{{Meter: fixed[0], Cost: 1}}},
				{Subject: rule.Subject("b"), Charges: []algorithm.Charge{
					{Meter: fixed[5], Cost: 1},
					over(algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 9, Window: time.Second, Ordinal: 1}),
					over(algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 32, Window: time.Second, Ordinal: 2}),
				}},
			}}
			var out storage.Outcome
			if err := s.takeMany(ticket, &out); err != nil || !out.Allowed {
				t.Fatal(err, out)
			}
			ticket.Groups[1].Charges = ticket.Groups[1].Charges[:1]
			before := contents(s)
			change(ticket)
			if s.takePlain(ticket, &out) {
				t.Error("it was decided as a plain ticket")
			}
			if after := contents(s); !reflect.DeepEqual(before, after) {
				t.Errorf("the slots were %+v, are %+v", before, after)
			}
		})
	}
}

// Tickets whose groups are in the same shards, listed in any order, do not deadlock, and exactly the limit passes.
func TestPlainTicketsInOppositeOrder(t *testing.T) {
	const limited, callers, each = 300, 8, 400
	s := open(t, Options{})
	rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
	both := []*algorithm.Meter{
		limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: 24 * time.Hour, Burst: limited}),
		limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: limited + 5, Window: 24 * time.Hour}),
	}
	var passed [callers]int
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 1))
			var out storage.Outcome
			for range each {
				ticket := &storage.Ticket{}
				for _, key := range random.Perm(6) {
					g := storage.Group{Subject: rule.Subject(string(rune('a' + key)))}
					g.Charges = append(g.Charges, algorithm.Charge{Meter: both[key%2], Cost: 1})
					ticket.Groups = append(ticket.Groups, g)
				}
				if err := s.Take(t.Context(), ticket, &out); err != nil {
					t.Error(err)
					return
				}
				if out.Allowed {
					passed[caller]++
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range passed {
		total += n
	}
	if total != limited {
		t.Errorf("%d of %d tickets passed, the limit is %d", total, callers*each, limited)
	}
}

// Charges without a ticket have the results of a ticket through a workspace, and leave the same slots.
func TestSeveralChargesAreDecidedAlike(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	synctest.Test(t, func(t *testing.T) {
		without, through := open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes})
		through.seed = without.seed
		rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
		all := meters(t, singleLimits())
		answers := map[[2]bool]int{}
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 12))
			var some []*algorithm.Meter
			for _, i := range random.Perm(len(all))[:2+random.IntN(maxSeveral-1)] {
				some = append(some, all[i])
			}
			several := without.Several(without, rule, some).(*severalRule)
			for call := range 300 {
				time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
				synctest.Wait() // both janitors have done what they do by now
				key, cost := string(rune('a'+random.IntN(3))), [...]int64{0, 1, 1, 1, 2, 9}[random.IntN(6)]
				ticket := &storage.Ticket{Groups: []storage.Group{{Subject: rule.Subject(key)}}}
				for _, m := range some {
					ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, algorithm.Charge{Meter: m, Cost: cost})
				}
				var out, want storage.Outcome
				var results [maxSeveral]severalResult
				now, taken, ok := several.decide(t.Context(), key, cost, &results)
				if !ok {
					if err := without.takeMany(ticket, &out); err != nil {
						t.Fatal(err)
					}
				}
				if err := through.takeMany(ticket, &want); err != nil {
					t.Fatal(err)
				}
				for i := range some {
					var d algorithm.Decision
					if several.report(&d, i, now, cost, taken, &results[i]); ok && (d != want.Decisions[i] || results[i].state != want.States[i] || now != want.Now || taken != want.Allowed) {
						t.Fatalf("seed %d, call %d: %+v at %d, through a workspace %+v", seed, call, results, now, want)
					}
				}
				if a, b := contents(without), contents(through); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, call %d, without a ticket %t: slots differ:\n%+v\n%+v", seed, call, ok, a, b)
				}
				answers[[2]bool{ok, want.Allowed}]++
			}
		}
		for _, kind := range [][2]bool{{true, true}, {true, false}, {false, true}} {
			if answers[kind] < 50 {
				t.Errorf("only %d requests were decided without a ticket %t and allowed %t", answers[kind], kind[0], kind[1])
			}
		}
	})
}

// A cost that no ticket may have, a request that has ended and limits that need tickets are left to them.
func TestSeveralNeedsATicket(t *testing.T) {
	s := open(t, Options{})
	rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
	fixed := meters(t, singleLimits())
	wide := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 32, Window: time.Second})
	if s.Several(s, rule, []*algorithm.Meter{fixed[0], wide}) != nil || s.Several(s, rule, fixed[:maxSeveral+1]) != nil {
		t.Error("a large counter, or too many meters")
	}
	embedded := struct{ *Store }{s} // it may have another Take
	if embedded.Several(embedded, rule, fixed[:2]) != nil {
		t.Error("a store that embeds this one does not decide itself")
	}
	large := &storage.Ticket{Groups: []storage.Group{{Subject: rule.Subject("large"), Charges: []algorithm.Charge{{Meter: wide, Cost: 1}}}}}
	if err := s.Take(t.Context(), large, new(storage.Outcome)); err != nil {
		t.Fatal(err)
	}
	small := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 9, Window: time.Second})
	if _, ok := s.Several(s, rule, []*algorithm.Meter{small}).Take(t.Context(), "large", 1); ok {
		t.Error("a counter that was large was decided")
	}
	several := s.Several(s, rule, fixed[:2])
	ended, end := context.WithCancel(t.Context())
	end()
	for _, test := range []struct {
		ctx  context.Context
		key  string
		cost int64
	}{
		{t.Context(), "a", -1},
		{t.Context(), "a", algorithm.MaxCount + 1},
		{ended, "a", 1},
		{t.Context(), "new", 1},
	} {
		ticket := &storage.Ticket{Groups: []storage.Group{{Subject: rule.Subject("a"), Charges: []algorithm.Charge{{Meter: fixed[0], Cost: 1}, {Meter: fixed[1], Cost: 1}}}}}
		if err := s.Take(t.Context(), ticket, new(storage.Outcome)); err != nil {
			t.Fatal(err)
		}
		before := contents(s)
		if _, ok := several.Take(test.ctx, test.key, test.cost); ok || !reflect.DeepEqual(before, contents(s)) {
			t.Errorf("%q, %d was decided", test.key, test.cost)
		}
	}
}
