package denycache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// The cache answers what the store would answer, in every number.
func TestAnswersAsTheStore(t *testing.T) {
	bucket := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 36_000, Window: time.Hour, Burst: 100}
	for name, act := range map[string]func(s *testNode){
		"retry-after shrinks": func(s *testNode) {
			s.passes(start, group(bucket, 100))
			s.compare(start+1, group(bucket, 5))
			s.asks(0, func() {
				s.compare(start+50_000, group(bucket, 5))
				s.compare(start+499_999, group(bucket, 5))
			})
			s.passes(start+500_000, group(bucket, 5))
		},
		"a larger cost waits longer": func(s *testNode) {
			s.passes(start, group(bucket, 100))
			s.compare(start+1, group(bucket, 5))
			s.asks(0, func() {
				s.compare(start+2, group(bucket, 6))
				s.compare(start+3, group(bucket, 100))
				s.compare(start+4, group(bucket, 101)) // which never passes
			})
		},
		"a log that lacks one": func(s *testNode) {
			g := group(penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 2, Window: 500 * time.Millisecond}, 1)
			s.passes(start, g)
			s.passes(start+100, g)
			s.compare(start+200, g)
			s.asks(0, func() {
				s.compare(start+201, g)
				s.compare(start+499_999, g)
			})
			s.passes(start+500_000, g)
		},
		"several limits, some of which would pass": func(s *testNode) {
			g := group(hourly(1), 1)
			g.Charges = append(g.Charges, group(bucket, 1).Charges...)
			other := group(bucket, 1)
			other.Subject[8]++
			s.passes(start, g, other)
			s.compare(start+1, g, other)
			s.asks(0, func() { s.compare(start+100_000, g, other) })
		},
		"a ban": func(s *testNode) {
			g := s.punished(group(bucket, 1))
			s.ban(start, g, time.Minute)
			s.compare(start+1, g)
			s.asks(0, func() { s.compare(start+900_000, g) })
			dedup, err := algorithm.DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Hour}}.Compile()
			s.check(err)
			g.Dedup, g.Call, g.Reserve = dedup, storage.CallID{1}, time.Minute
			s.asks(0, func() { s.compare(start+900_001, g) })
		},
		"a ban where denied calls are counted": func(s *testNode) {
			l := hourly(100)
			l.CountDenied = true
			g := s.punished(group(l, 1))
			s.ban(start, g, time.Minute)
			s.compare(start+1, g)
			s.asks(0, func() { s.compare(start+2, g) })
		},
		"a debt that may be larger": func(s *testNode) {
			small, large := bucket, bucket
			small.Overdraft, large.Overdraft = 10, 1000
			late := group(large, 500)
			late.Charges[0].Overdraw = true
			s.passes(start, late)
			s.compare(start+1, group(small, 1))
			s.compare(start+2, group(large, 1))
		},
		"the strike that brings a ban on": func(s *testNode) {
			g := s.punished(group(hourly(1), 1))
			s.passes(start, g)
			for i := range penstock.Instant(3) {
				s.denies(start+1+i, g)
			}
			s.asks(0, func() { s.compare(start+4, g) })
		},
		"a group it knows nothing about": func(s *testNode) {
			other := group(hourly(1), 1)
			other.Subject[8]++
			s.passes(start, group(hourly(1), 1))
			s.compare(start+1, group(hourly(1), 1))
			s.asks(1, func() { s.compare(start+2, group(hourly(1), 1), other) })
		},
		"a banned group beside one that counts denied calls": func(s *testNode) {
			l := hourly(1)
			l.CountDenied = true
			other := group(l, 1)
			other.Subject[8]++
			g := s.punished(group(bucket, 1))
			s.ban(start, g, time.Minute)
			s.asks(3, func() {
				for i := range penstock.Instant(3) {
					s.denies(start+1+i, g, other)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := judge(cached, act); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTimeOfTicketsAndOfClocksAreApart(t *testing.T) {
	s := newStage(cached)
	g := group(hourly(1), 1)
	s.passes(0, g)
	s.denies(0, g)
	s.asks(1, func() { s.denies(2, g) }) // to which the cache's own clock is near
	s.asks(0, func() { s.denies(3, g) })
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeAskedIsNotAnswered(t *testing.T) {
	s := newStage(cached)
	g := group(hourly(1), 1)
	s.passes(start, g)
	s.denies(start+1, g)
	if err := s.verdict(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ticket := storage.Ticket{Now: start + 2, Groups: []storage.Group{g}}
	var out storage.Outcome
	if err := s.node.Take(ended, &ticket, &out); !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("an ended context: %v", err)
	}
	ticket.MaxDelay = -1
	if err := s.node.Take(t.Context(), &ticket, &out); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("an invalid ticket: %v", err)
	}
	ticket = storage.Ticket{Groups: []storage.Group{{Charges: make([]algorithm.Charge, 1)}}}
	if err := s.node.Take(t.Context(), &ticket, &out); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("a charge without a meter: %v", err)
	}
}

// Tickets that are too large for the cache's answers are decided like any others.
func TestLargeTickets(t *testing.T) {
	s := newStage(cached)
	var groups []storage.Group
	for i := range storage.MaxGroups {
		g := storage.Group{Subject: somebody}
		g.Subject[8] += byte(i)
		charges := 1
		if i >= 12 {
			charges = 3
		}
		for j := range charges {
			l := hourly(1)
			l.Ordinal = uint8(j)
			g.Charges = append(g.Charges, algorithm.Charge{Meter: l.MustCompile(), Cost: 1})
		}
		groups = append(groups, g)
	}
	s.passes(start, groups...)
	for n := range groups {
		at := start + penstock.Instant(2*n)
		s.compare(at+1, groups[:n+1]...)
		s.compare(at+2, groups[:n+1]...)
		s.compare(at+2, groups[max(0, n-7):n+1]...)
		s.compare(at+2, groups[max(0, n-7):n+1]...)
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
}

// Only what can be answered takes room, and forgetting one subject forgets no other.
func TestEntries(t *testing.T) {
	c, err := denycache.New(storetest.Full(storetest.NewModel()), denycache.Options{MaxEntries: denycache.MinEntries})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(func(storetest.CompleteStore) storetest.CompleteStore { return c })
	entries := func(want int64, when string) {
		t.Helper()
		if got := c.Stats().Entries; got != want {
			t.Errorf("%s: %d entries, want %d", when, got, want)
		}
	}
	g, other := group(hourly(1), 1), group(hourly(1), 1)
	other.Subject[8]++
	struck := s.punished(g)
	elsewhere := storage.Ticket{Now: start, Denied: true, Groups: []storage.Group{g}}
	s.check(c.Take(t.Context(), &elsewhere, new(storage.Outcome)))
	s.passes(start, g)
	entries(0, "nothing was denied for good")
	s.denies(start+1, struck)
	entries(0, "a strike")
	s.denies(start+1, g, s.punished(other))
	entries(0, "a denial beside what may be a strike")
	s.denies(start+2, g)
	s.denies(start+3, g)
	entries(1, "a denial")
	s.passes(start, other)
	s.denies(start+1, other)
	entries(2, "another")
	c.Forget(g.Subject)
	entries(1, "one was forgotten")
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
}

// Not every store fills in the states: those of another ticket must not be used instead.
func TestStatesLeftInAnOutcome(t *testing.T) {
	model := storetest.NewModel()
	c := newCache(t, stateless{model})
	full, free := group(hourly(1), 1), group(hourly(1), 1)
	free.Subject[8]++
	var out storage.Outcome
	for i, g := range []storage.Group{full, full} {
		if err := model.Take(t.Context(), &storage.Ticket{Now: start + penstock.Instant(i), Groups: []storage.Group{g}}, &out); err != nil {
			t.Fatal(err)
		}
	}
	free.Charges[0].Cost = 2 // is denied, for a reason of its own
	for i, cost := range []int64{2, 1} {
		free.Charges[0].Cost = cost
		if err := c.Take(t.Context(), &storage.Ticket{Now: start + 10 + penstock.Instant(i), Groups: []storage.Group{free}}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if !out.Allowed {
		t.Errorf("denied by the state of another: %+v", out)
	}
}

type stateless struct{ penstock.Store }

func (s stateless) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	var own storage.Outcome
	err := s.Store.Take(ctx, t, &own)
	out.Now, out.Allowed, out.Groups, out.Decisions = own.Now, own.Allowed, own.Groups, own.Decisions
	return err
}

func TestAbilitiesAreTheStores(t *testing.T) {
	lists := newCache(t, newMemstore(t))
	if _, err := lists.Size(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := lists.Keys(t.Context(), storage.RuleTag{}, "", 1); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	for _, entries := range []int{-1, 7, denycache.MostEntries + 1} {
		if _, err := denycache.New(storetest.Full(storetest.NewModel()), denycache.Options{MaxEntries: entries}); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%d entries: %v", entries, err)
		}
	}
	if _, err := denycache.New(nil, denycache.Options{}); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
}
