package memstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

func limit(t testing.TB, l algorithm.Limit) *algorithm.Meter {
	t.Helper()
	m, err := l.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// subject returns the n-th subject of a series, as a keyed hash would make them.
func subject(n uint64) (s storage.Subject) {
	r := rand.NewPCG(n, 0x5eed)
	binary.LittleEndian.PutUint64(s[:8], r.Uint64())
	binary.LittleEndian.PutUint64(s[8:], r.Uint64())
	return s
}

func single(n uint64, m *algorithm.Meter, cost int64) *storage.Ticket {
	return &storage.Ticket{Nonce: n + 1, Groups: []storage.Group{
		{Subject: subject(n), Charges: []algorithm.Charge{{Meter: m, Cost: cost}}},
	}}
}

func take(t testing.TB, s *Store, ticket *storage.Ticket) *storage.Outcome {
	t.Helper()
	out := new(storage.Outcome)
	if err := s.Take(t.Context(), ticket, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNewNamesTheBadValue(t *testing.T) {
	for _, bad := range []int64{-1, 1, MinBytes - 1} {
		if _, err := New(Options{MaxBytes: bad}); !errors.Is(err, algorithm.ErrInvalid) || !strings.Contains(err.Error(), "MaxBytes") {
			t.Errorf("%d: %v", bad, err)
		}
	}
	for bytes, want := range map[int64]int{MinBytes: 1, 1 << 20: 16, 64 << 20: 64, 1 << 30: 1024, 1 << 40: 4096} {
		if got := shardCount(bytes); got != want {
			t.Errorf("%d bytes: %d shards, want %d", bytes, got, want)
		}
	}
}

func TestEndedContext(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Take(ctx, single(1, m, 1), new(storage.Outcome))
	if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if !take(t, s, single(1, m, 1)).Allowed {
		t.Error("the call that was cancelled has been charged")
	}
	err = s.Take(t.Context(), &storage.Ticket{}, new(storage.Outcome))
	if !errors.Is(err, algorithm.ErrInvalid) {
		t.Errorf("a ticket without groups: %v", err)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the pool forgets at random under the race detector")
	}
	s := open(t, Options{})
	bucket := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Window: time.Second, Burst: 1_000_000})
	counter := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 4e9 + 5e8, Window: time.Second})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100, Window: 50 * time.Millisecond})
	leases := limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 10, Window: 50 * time.Millisecond})
	for name, ticket := range map[string]*storage.Ticket{
		"one charge": single(1, bucket, 1),
		"peek":       single(1, bucket, 0),
		"denied":     single(1, bucket, 900_000),
		"log":        single(2, log, 1),
		"leases":     single(3, leases, 1),
		"several groups": {Nonce: 7, Groups: []storage.Group{
			{Subject: subject(4), Charges: []algorithm.Charge{{Meter: bucket, Cost: 1}, {Meter: counter, Cost: 2}, {Meter: log, Cost: 1}}},
			{Subject: subject(5), Charges: []algorithm.Charge{{Meter: leases, Cost: 1}}, Alone: true},
			{Subject: subject(6), Charges: []algorithm.Charge{{Meter: bucket, Cost: 1}}},
		}},
	} {
		var out storage.Outcome
		run := func() {
			ticket.Nonce++
			if err := s.Take(t.Context(), ticket, &out); err != nil {
				t.Fatal(err)
			}
		}
		for range 300 {
			run()
		}
		if n := testing.AllocsPerRun(500, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestBytesPerKey(t *testing.T) {
	const keys = 1_000_000
	if testing.Short() {
		t.Skip("fills a million keys")
	}
	m := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Window: time.Hour})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := open(t, Options{})
	out := new(storage.Outcome)
	ticket := single(0, m, 1)
	for n := range uint64(keys) {
		ticket.Groups[0].Subject = subject(n)
		if err := s.Take(t.Context(), ticket, out); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	stats := s.Stats()
	// Negative if memory of other tests was freed in the meantime.
	heap := (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / keys
	counted := float64(stats.Bytes-s.memory.fixed) / keys // the fixed part is that of 1 GiB
	t.Logf("%.1f bytes per key by Stats, %.1f on the heap", counted, heap)
	if stats.Keys != keys || stats.Evicted != 0 || stats.Refused != 0 {
		t.Errorf("stats %+v", stats)
	}
	// With ten times as many keys it is 39: here a level of chunks is a tenth of all.
	if counted > 46 || heap > 1 {
		t.Error("want at most 46, and nothing on the heap")
	}
	for i := range s.shards {
		s.shards[i].check(t)
	}
}

func TestExpiryGivesMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxBytes: 16 << 20})
		short := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Second})
		log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1000, Window: time.Second})
		empty := s.Stats().Bytes
		for n := range uint64(50_000) {
			take(t, s, single(n, short, 1))
			if n%10 == 0 {
				take(t, s, single(n, log, 1))
			}
		}
		given := single(999_999, short, 1)
		given.Now = 5_000_000
		take(t, s, given)
		full := s.Stats()
		if full.Keys != 55_001 {
			t.Fatalf("%d keys", full.Keys)
		}
		time.Sleep(10 * time.Second)
		for range 20_000 { // for a while there is traffic that adds nothing
			take(t, s, single(0, short, 1))
			time.Sleep(200 * time.Microsecond)
		}
		now := s.Stats()
		if now.Keys > 100 || now.Bytes > 2*empty || now.Evicted != 0 {
			t.Errorf("from %+v to %+v, empty %d", full, now, empty)
		}
		synctest.Wait() // the janitor is done
		if lists := s.memory.frames.bytes; lists != 0 {
			t.Errorf("lists still take %d bytes", lists)
		}
		given.Groups[0].Charges[0].Cost = 0
		if used := take(t, s, given).Decisions[0].Used; used != 1 {
			t.Errorf("what was written at a given instant: used %d, want 1", used)
		}
		for i := range s.shards {
			s.shards[i].check(t)
		}
	})
}

func TestNewKeysTakeThePlaceOfExpiredOnes(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxBytes: 16 << 20})
		m := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 2, Window: time.Second})
		n := uint64(0)
		var half Stats
		for second := range 60 {
			for range 2000 {
				take(t, s, single(n, m, 1))
				n++
			}
			if second == 30 {
				half = s.Stats()
			}
			time.Sleep(time.Second)
		}
		// Seven seconds' worth of keys is alive or in its grace period.
		stats := s.Stats()
		if stats.Keys > 2*7*2000 || stats.Bytes > half.Bytes*5/4 || stats.Evicted != 0 {
			t.Errorf("from %+v to %+v after %d keys", half, stats, n)
		}
	})
}

func TestWideCounters(t *testing.T) {
	s := open(t, Options{})
	wide := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 4e9 + 5e8, Window: time.Second})
	narrow := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 20, Window: time.Second})
	at := func(m *algorithm.Meter, now algorithm.Instant, cost int64) algorithm.Decision {
		ticket := single(1, m, cost)
		ticket.Now = now
		return take(t, s, ticket).Decisions[0]
	}
	const most = 4_500_000_000
	at(narrow, 1_000_000, 5)
	if d := at(wide, 1_000_000, most-5); d.Used != most {
		t.Errorf("used %d", d.Used)
	}
	if d := at(wide, 2_500_000, 1_000_000_000); d.Used != most/2+1_000_000_000 {
		t.Errorf("used %d in the next window", d.Used)
	}
	if d := at(narrow, 2_500_000, 1); d.Allowed || d.Used != most/2+1_000_000_000 {
		t.Errorf("a limit that was lowered: %+v", d)
	}
	if d := at(narrow, 5_000_000, 1); !d.Allowed || d.Used != 1 {
		t.Errorf("afterwards: %+v", d)
	}
	// An overdraft must fit, too.
	indebted := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 4e9, Window: time.Second, Overdraft: 5e8})
	ticket := single(2, indebted, most)
	ticket.Now = 1_000_000
	ticket.Groups[0].Charges[0].Overdraw = true
	if d := take(t, s, ticket).Decisions[0]; d.Used != most {
		t.Errorf("used %d", d.Used)
	}
	ticket.Groups[0].Charges[0].Cost = 0
	if d := take(t, s, ticket).Decisions[0]; d.Used != most {
		t.Errorf("used %d afterwards", d.Used)
	}
}

// Several independent groups may add to one log; the room for all of them is made in advance.
func TestAloneGroupsShareALog(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100, Window: time.Second})
	ticket := &storage.Ticket{Now: 1_000_000}
	for range 20 {
		ticket.Groups = append(ticket.Groups, storage.Group{Subject: subject(1), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}, Alone: true})
	}
	for round := range int64(5) {
		out := take(t, s, ticket)
		for i, d := range out.Decisions {
			if want := round*20 + int64(i) + 1; d.Used != want {
				t.Fatalf("round %d, group %d: used %d, want %d", round, i, d.Used, want)
			}
		}
	}
	if out := take(t, s, ticket); out.Groups[0].Allowed || !out.Allowed {
		t.Errorf("the 101st: %+v", out)
	}
}

func TestConcurrentTickets(t *testing.T) {
	s := open(t, Options{MaxBytes: 4 << 20})
	window := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 500, Window: 24 * time.Hour * 366})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 500, Window: time.Hour})
	var group sync.WaitGroup
	var mu sync.Mutex
	allowed := map[uint64]int{}
	for worker := range uint64(4) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(worker, 1))
			var out storage.Outcome
			for range 4000 {
				a, b := r.Uint64N(6), r.Uint64N(6)
				charges := []algorithm.Charge{{Meter: window, Cost: 1}, {Meter: log, Cost: 1}}
				ticket := &storage.Ticket{Groups: []storage.Group{{Subject: subject(a), Charges: charges}}}
				if a != b {
					ticket.Groups = append(ticket.Groups, storage.Group{Subject: subject(b), Charges: charges})
				}
				if err := s.Take(t.Context(), ticket, &out); err != nil {
					t.Error(err)
					return
				}
				if out.Allowed {
					mu.Lock()
					allowed[a]++
					if a != b {
						allowed[b]++
					}
					mu.Unlock()
				}
				_ = s.Stats()
			}
		})
	}
	group.Wait()
	for n := range uint64(6) {
		out := take(t, s, single(n, window, 0))
		if used := out.Decisions[0].Used; used != int64(allowed[n]) || used > 500 || used < 400 {
			t.Errorf("subject %d: %d passed, %d are counted", n, allowed[n], used)
		}
	}
}
