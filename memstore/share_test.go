package memstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// The oracle is a store with room for everything. It decides what the full store has let pass, and would
// deny whatever a key gets beyond its limit.
func TestFullStoreNeverUndercounts(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	for name, l := range map[string]algorithm.Limit{
		"window":   {Algorithm: algorithm.FixedWindow, Count: 5, Window: time.Minute},
		"calendar": {Algorithm: algorithm.FixedWindow, Count: 5, Period: algorithm.Hour},
		"counter":  {Algorithm: algorithm.SlidingWindowCounter, Count: 5, Window: time.Minute},
		"bucket":   {Algorithm: algorithm.TokenBucket, Count: 5, Window: time.Minute, Burst: 8},
		"interval": {Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Minute, Burst: 8, Refill: algorithm.Interval},
		"leaky":    {Algorithm: algorithm.LeakyBucket, Count: 5, Window: time.Minute, Queue: 6},
		"log":      {Algorithm: algorithm.SlidingWindowLog, Count: 5, Window: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(4)
			if os.Getenv("PENSTOCK_TEST_LONG") != "" {
				seeds = 100
			}
			for seed := range seeds {
				undercount(t, seed, limit(t, l))
			}
		})
	}
}

func undercount(t *testing.T, seed uint64, m *algorithm.Meter) {
	s, oracle := open(t, Options{MaxBytes: MinBytes << (2 * (seed % 2))}), open(t, Options{})
	r := rand.New(rand.NewPCG(seed, 13))
	s.seed = r.Uint64() | 1 // otherwise each run would fill different shards
	other := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 2, Window: time.Duration(m.Window) * time.Microsecond, Ordinal: 7})
	rule := storage.NewHasher("").Rule("test", "rule", "user")
	capacity := (MinBytes << (2 * (seed % 2))) / slotSize
	now := algorithm.Instant(1_700_000_000_000_000)
	steps, windows := 50_000, int64(8)>>(2*(seed%2))
	var denied, passed, most int64
	for step := range steps {
		now += algorithm.Instant(r.Int64N(2 * m.Window * windows / int64(steps)))
		// Keys come and go: of three times as many as fit, a few are busy for a while.
		n := r.IntN(3 * capacity)
		if r.IntN(2) == 0 {
			n = (step/2000*97 + r.IntN(40)) % (3 * capacity)
		}
		g := storage.Group{Subject: rule.Subject(fmt.Sprint(n)), Charges: []algorithm.Charge{{Meter: m, Cost: 1 + r.Int64N(2)}}}
		if r.IntN(3) == 0 {
			g.Charges = append(g.Charges, algorithm.Charge{Meter: other, Cost: 1})
		}
		g.Alone = r.IntN(4) == 0
		ticket := &storage.Ticket{Now: now, MaxDelay: algorithm.AnyDelay, Groups: []storage.Group{g}}
		if isDenied(take(t, s, ticket)) {
			denied++
			continue
		}
		passed++
		if out := take(t, oracle, ticket); isDenied(out) {
			t.Fatalf("seed %d, step %d: key %d got more than its limit, %+v", seed, step, n, out.Decisions)
		}
		most = max(most, s.Stats().Shared)
	}
	stats := s.Stats()
	t.Logf("%d passed, %d denied, up to %d shared counters, %+v", passed, denied, most, stats)
	if most == 0 || passed < int64(steps)/40 || stats.Evicted != 0 || stats.Refused != 0 {
		t.Errorf("%d passed, %d denied, up to %d shared counters, %+v", passed, denied, most, stats)
	}
	for i := range s.shards {
		s.shards[i].checkLists(t)
	}
}

// isDenied reports whether nothing was charged. An independent group does not deny its ticket.
func isDenied(out *storage.Outcome) bool {
	return slices.ContainsFunc(out.Decisions, func(d algorithm.Decision) bool { return !d.Allowed })
}

// A key that shared a counter with many others may later share one with fewer. The new counter starts with
// the value of the old one.
func TestNewSharedCounterStartsFromTheOneBefore(t *testing.T) {
	const now = algorithm.Instant(1_700_000_000_000_000)
	for name, l := range map[string]algorithm.Limit{
		"window": {Algorithm: algorithm.FixedWindow, Count: 5, Window: time.Hour, Ordinal: 3},
		"log":    {Algorithm: algorithm.SlidingWindowLog, Count: 5, Window: time.Hour, Ordinal: 3},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " alone ", alone), func(t *testing.T) {
				s, m := open(t, Options{MaxBytes: MinBytes}), limit(t, l)
				slots := fill(t, s, now)
				ticket := &storage.Ticket{Now: now, Groups: []storage.Group{{
					Alone:   alone,
					Charges: []algorithm.Charge{{Meter: m, Cost: 4}, {Meter: limit(t, algorithm.Limit{Algorithm: l.Algorithm, Count: 100, Window: time.Hour, Ordinal: 4}), Cost: 1}},
				}}}
				// Find a key whose shared counter's place is not in the key's own larger neighbourhood.
				for n := uint64(1 << 43); ; n++ {
					ticket.Groups[0].Subject = subject(n)
					k, _ := s.locate(&ticket.Groups[0].Subject, m)
					small := s.memory.sharedKey(k, m.Fingerprint, 0, 0)
					if s.memory.sharedKey(small, m.Fingerprint, 0, 1) != s.memory.sharedKey(k, m.Fingerprint, 0, 1) {
						break
					}
				}
				take(t, s, ticket)
				sh, tag := s.shardOf(&ticket.Groups[0].Subject), tagOf(&ticket.Groups[0].Subject)
				k, _ := s.locate(&ticket.Groups[0].Subject, m)
				first := sh.findShared(k, m.Fingerprint, tag)
				if sh.find(k) != nil || first == nil {
					t.Fatalf("not shared: %+v", s.Stats())
				}
				if first.key == s.memory.sharedKey(k, m.Fingerprint, tag, 0) {
					t.Fatal("there was room in the smallest neighbourhood")
				}
				for i := range 20 { // room for shared counters, but not for those of a single key
					if err := s.Reset(t.Context(), &slots[i]); err != nil {
						t.Fatal(err)
					}
				}
				for want := int64(4); want <= 6; want++ {
					ticket.Groups[0].Charges[0].Cost = want - 4 // a peek, then up to the limit and beyond it
					d := take(t, s, ticket).Decisions[0]
					if d.Used != min(want, 5) || d.Allowed != (want <= 5) {
						t.Errorf("used %d, want %d: %+v", d.Used, want, d)
					}
				}
				if sh.find(k) != nil || sh.find(s.memory.sharedKey(k, m.Fingerprint, tag, 0)) == nil {
					t.Errorf("no shared counter was added: %+v", s.Stats())
				}
			})
		}
	}
}

// Keys of a rule may have different limits. Whichever of them share a counter, none gets more than its own limit.
func TestSharingKeysHaveDifferentLimits(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	for name, l := range map[string]algorithm.Limit{
		"window":              {Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Minute},
		"window with denied":  {Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Minute, CountDenied: true},
		"counter":             {Algorithm: algorithm.SlidingWindowCounter, Count: 10, Window: time.Minute},
		"counter with denied": {Algorithm: algorithm.SlidingWindowCounter, Count: 10, Window: time.Minute, CountDenied: true},
		"bucket":              {Algorithm: algorithm.TokenBucket, Count: 10, Window: time.Minute, Burst: 12},
		"interval":            {Algorithm: algorithm.TokenBucket, Count: 2, Window: 10 * time.Second, Burst: 10, Refill: algorithm.Interval},
		"leaky":               {Algorithm: algorithm.LeakyBucket, Count: 10, Window: time.Minute, Queue: 9},
		"log":                 {Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Minute},
		"log with denied":     {Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Minute, CountDenied: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				times, high := 5+int64(seed%2)*95, l
				high.Count, high.Burst, high.Queue = times*l.Count, times*l.Burst, times*l.Queue
				meters := []*algorithm.Meter{limit(t, l), limit(t, high)}
				r := rand.New(rand.NewPCG(seed, 17))
				now := algorithm.Instant(1_700_000_000_000_000)
				s, oracle := open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes})
				fill(t, s, now)
				rule := storage.NewHasher("").Rule("test", "rule", "user")
				passed := [2]int{}
				for range 400 {
					now += algorithm.Instant(r.Int64N(int64(time.Second / time.Microsecond)))
					i := r.IntN(2)
					g := storage.Group{Subject: rule.Subject(fmt.Sprint(i)), Charges: []algorithm.Charge{{Meter: meters[i], Cost: 1}}}
					ticket := &storage.Ticket{Now: now, MaxDelay: algorithm.AnyDelay, Groups: []storage.Group{g}}
					if !take(t, s, ticket).Allowed {
						continue
					}
					passed[i]++
					if out := take(t, oracle, ticket); !out.Allowed {
						t.Fatalf("seed %d: key %d got more than its limit, %+v", seed, i, out.Decisions)
					}
				}
				if s.Stats().Shared == 0 || passed[0]+passed[1] < 10 {
					t.Fatalf("seed %d: %d passed, so little was checked: %+v", seed, passed, s.Stats())
				}
			}
		})
	}
}

// Once there is room, keys have their own counters again.
func TestSharingEnds(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxBytes: 1 << 20})
		short := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Second})
		rule := storage.NewHasher("").Rule("test", "rule", "user")
		for _, l := range []algorithm.Limit{
			{Algorithm: algorithm.TokenBucket, Count: 10, Window: time.Hour},
			{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Hour},
		} {
			m := limit(t, l)
			for n := range uint64(60_000) {
				take(t, s, single(n, short, 1))
			}
			g := storage.Group{Subject: rule.Subject(l.String()), Charges: []algorithm.Charge{{Meter: m, Cost: 3}}}
			ticket := &storage.Ticket{Groups: []storage.Group{g}}
			take(t, s, ticket)
			if s.Stats().Shared == 0 {
				t.Fatalf("%v: not full: %+v", l, s.Stats())
			}
			time.Sleep(20 * time.Second)
			for want := int64(6); want < 10; want += 3 {
				if d := take(t, s, ticket).Decisions[0]; !d.Allowed || d.Used != want {
					t.Errorf("%v: used %d, want %d: what was shared is lost", l, d.Used, want)
				}
			}
			k, _ := s.locate(&g.Subject, m)
			if s.shardOf(&g.Subject).find(k) == nil {
				t.Errorf("%v: still shared, %+v", l, s.Stats())
			}
		}
	})
}

// What cannot be shared is refused, and existing state keeps working.
func TestFullStoreRefusesPermitsAndReservations(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	const now = algorithm.Instant(1_700_000_000_000_000)
	permits := limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Hour})
	window := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Hour})
	take1 := func(nonce uint64, g storage.Group) (out storage.Outcome, err error) {
		return out, s.Take(t.Context(), &storage.Ticket{Now: now, Nonce: nonce, Groups: []storage.Group{g}}, &out)
	}
	held := storage.Group{Subject: subject(1 << 40), Charges: []algorithm.Charge{{Meter: permits, Cost: 1}}}
	if out, err := take1(1, held); err != nil || !out.Allowed {
		t.Fatal(out, err)
	}
	fill(t, s, now)
	if out, err := take1(2, held); err != nil || out.Decisions[0].Used != 2 {
		t.Errorf("a second permit of a key that is there: %+v, %v", out, err)
	}
	for name, g := range map[string]storage.Group{
		"permit":      {Charges: []algorithm.Charge{{Meter: permits, Cost: 1}}},
		"reservation": {Charges: []algorithm.Charge{{Meter: window, Cost: 1}}, Reserve: time.Minute},
	} {
		g.Subject = subject(1 << 41)
		if _, err := take1(3, g); !errors.Is(err, storage.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Duplicates of a request that could not be recorded are charged, to the same counter as the request.
	g := storage.Group{Subject: subject(1 << 42), Charges: []algorithm.Charge{{Meter: window, Cost: 1}}, Dedup: dedupOf(t, time.Hour), Call: call(1)}
	passed := 0
	for range 10 {
		out, err := take1(4, g)
		if err != nil || out.Groups[0].Replay {
			t.Fatal(out, err)
		}
		if out.Allowed {
			passed++
		}
	}
	if passed > 3 {
		t.Errorf("%d passed, the limit is 3", passed)
	}
}

// Keys that make one request each, ten times as many as there is room for: ideally none of them is denied.
// The denials that do occur are the price of never undercounting.
func TestLightKeysAtTenTimesCapacity(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	size := int64(4 << 20)
	if testing.Short() {
		size = 1 << 20
	}
	rule := storage.NewHasher("").Rule("test", "rule", "user")
	for _, count := range []int64{10, 100, 1000} {
		s := open(t, Options{MaxBytes: size})
		m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: count, Window: 24 * time.Hour})
		ticket := &storage.Ticket{Now: 1_700_000_000_000_000, Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}}
		keys, capacity, denied := 0, 0, 0
		for ; capacity == 0 || keys < 10*capacity; keys++ {
			ticket.Groups[0].Subject = rule.Subject(fmt.Sprint(keys))
			if !take(t, s, ticket).Allowed {
				denied++
			}
			if capacity == 0 && s.memory.mostShared() > 0 {
				capacity = keys
			}
		}
		share := float64(denied) / float64(keys)
		t.Logf("limit %d: %d of %d light keys falsely denied (%.1f %%), room for %d", count, denied, keys, 100*share, capacity)
		if count == 1000 && share > 0.05 { // the smaller the store, the more falls to the higher levels
			t.Errorf("with a limit of 1000 %.1f %% were denied", 100*share)
		}
	}
}

// mostShared returns the largest number of shared counters in any shard.
func (m *memory) mostShared() (n uint32) {
	for i := range m.store.shards {
		n = max(n, m.store.shards[i].shared)
	}
	return n
}

// Expired state makes room before any live state has to be shared or refused.
func TestDeadKeysMakeRoomForLiveLogs(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	for name, pause := range map[string]time.Duration{"after a pause": 10 * time.Second, "at once": 1300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, Options{MaxBytes: 8 << 20})
				short := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Second})
				log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 4, Window: time.Hour})
				for n := range uint64(400_000) {
					take(t, s, single(n, short, 1))
				}
				if s.Stats().Shared == 0 {
					t.Fatalf("not full: %+v", s.Stats())
				}
				time.Sleep(pause)
				const logs = 20_000
				for n := range uint64(logs) {
					take(t, s, single(1<<40+n, log, 1))
				}
				for n := range uint64(logs) {
					if used := take(t, s, single(1<<40+n, log, 0)).Decisions[0].Used; used != 1 {
						t.Fatalf("log %d: used %d, want 1; %+v", n, used, s.Stats())
					}
				}
				if stats := s.Stats(); stats.Shared != 0 || stats.Refused != 0 || stats.Evicted != 0 {
					t.Errorf("stats %+v", stats)
				}
			})
		})
	}
}

// A store that is no longer referenced is unmapped only when its last operation is over.
func TestMappingOutlivesTheStore(t *testing.T) {
	m := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100, Window: time.Hour})
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for i := range 200 {
		s, err := New(Options{MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		turns := make([]storage.BatchItem, 500)
		for j := range turns {
			turns[j].Ticket = *single(uint64(i+j), m, 1)
		}
		s.TakeEach(t.Context(), turns) // its last use
		if turns[499].Err != nil {
			t.Fatal(turns[499].Err)
		}
	}
	close(stop)
	group.Wait()
}
