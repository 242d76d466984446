package memstore

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

func TestFloodFreesNobody(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	const victims, budget = 1000, 4 << 20
	flood := uint64(1_000_000)
	if testing.Short() {
		flood = 200_000
	}
	s := open(t, Options{MaxBytes: budget})
	meters := []*algorithm.Meter{
		limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Hour}),
		limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Period: algorithm.Year, Count: 3}),
		limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Hour}),
		limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Hour}),
	}
	ticket := single(0, meters[0], 1)
	for n := range uint64(victims) {
		for range 3 {
			ticket.Nonce++
			ticket.Groups[0] = storage.Group{Subject: subject(n), Charges: []algorithm.Charge{{Meter: meters[n%4], Cost: 1}}}
			if !take(t, s, ticket).Allowed {
				t.Fatal("denied too early")
			}
		}
	}
	var out storage.Outcome
	for n := range flood {
		// Lists too, with windows that make the flood look longer-lived than the victims.
		m := meters[1+n%8%3]
		ticket.Nonce++
		ticket.Groups[0] = storage.Group{Subject: subject(victims + n), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}
		err := s.Take(t.Context(), ticket, &out)
		switch {
		case err != nil && !errors.Is(err, storage.ErrFull):
			t.Fatal(err)
		case err != nil && m.Kind != algorithm.KindLeases:
			t.Fatalf("key %d is refused by %v: %v, %+v", n, m, err, s.Stats())
		}
		if n%100_000 == 0 {
			if bytes := s.Stats().Bytes; bytes > budget {
				t.Fatalf("%d bytes used of %d", bytes, budget)
			}
		}
	}
	for n := range uint64(victims) {
		ticket.Nonce++
		ticket.Groups[0] = storage.Group{Subject: subject(n), Charges: []algorithm.Charge{{Meter: meters[n%4], Cost: 1}}}
		if take(t, s, ticket).Allowed {
			t.Fatalf("victim %d got a token back", n)
		}
	}
	stats := s.Stats()
	t.Logf("%+v", stats)
	if stats.Evicted != 0 || stats.Shared < 1000 || stats.Bytes > budget {
		t.Errorf("stats %+v", stats)
	}
}

func TestFullOfTheSpent(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	once := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: 24 * time.Hour})
	permits := limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 2, Window: time.Hour})
	const now = 7_200_000_000
	n := uint64(len(fill(t, s, now)))
	if n < MinBytes/slotSize*2/5 {
		t.Fatalf("full with %d keys", n)
	}
	if stats := s.Stats(); stats.Bytes > MinBytes || stats.Evicted+stats.Shared+stats.Refused != 0 {
		t.Errorf("stats %+v", stats)
	}
	ask := func(now algorithm.Instant, groups ...storage.Group) (out storage.Outcome, err error) {
		return out, s.Take(t.Context(), &storage.Ticket{Now: now, Nonce: 1, Groups: groups}, &out)
	}
	group := func(n uint64, m *algorithm.Meter, alone bool) storage.Group {
		return storage.Group{Subject: subject(n), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}, Alone: alone}
	}
	_, err := ask(now, group(n, permits, false))
	if !errors.Is(err, storage.ErrFull) || !errors.Is(err, storage.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if stats := s.Stats(); stats.Refused != 1 {
		t.Errorf("stats %+v", stats)
	}
	// A ticket that finds no room for one of its groups charges none of them, independent or not.
	before := s.Stats()
	if _, err := ask(now, group(0, once, false), group(n, permits, false)); err != nil { // nothing needs to be added
		t.Errorf("a denied ticket: %v", err)
	}
	for _, alone := range []bool{false, true} {
		if _, err := ask(now, group(n+1, once, alone), group(n, permits, false)); !errors.Is(err, storage.ErrFull) {
			t.Errorf("alone %v: %v", alone, err)
		}
	}
	if after := s.Stats(); after.Keys != before.Keys {
		t.Errorf("from %+v to %+v", before, after)
	}
	// Once they have expired, there is room again.
	if _, err := ask(now+25*3600*1_000_000, group(n, permits, false)); err != nil {
		t.Error(err)
	}
}

// A log that cannot grow becomes coarser and keeps counting.
func TestNoRoomForALongerLog(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 20_000, Window: time.Hour})
	window := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1_000_000, Window: 24 * time.Hour})
	ticket := single(1, log, 1)
	ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, algorithm.Charge{Meter: window, Cost: 1})
	ticket.Now = 7_200_000_000
	for passed := int64(1); passed <= 20_000; passed++ {
		ticket.Now += 100_000
		if out := take(t, s, ticket); !out.Allowed || out.Decisions[0].Used != passed || out.Decisions[1].Used != passed {
			t.Fatalf("call %d: %+v", passed, out)
		}
	}
	if take(t, s, ticket).Allowed {
		t.Error("one above the limit passed")
	}
	if stats := s.Stats(); stats.Bytes > MinBytes || stats.Refused != 0 {
		t.Errorf("stats %+v", stats)
	}
	// Of 20,000 requests in 2,000 s, at most an eighth counts beyond its time.
	ticket.Now += 3600*1_000_000 - 1_000_000_000
	if out := take(t, s, ticket); !out.Allowed || out.Decisions[0].Used > 12_500 {
		t.Errorf("half of a window later: %+v", out)
	}
	s.shards[0].checkLists(t)
}

// checkLists fails unless every list belongs to exactly one slot. Lists with several entries that are not
// apart are logs or permits, and date their slot by the last entry.
func (sh *shard) checkLists(t *testing.T) {
	t.Helper()
	sh.check(t)
	taken, owners := 0, map[block]bool{}
	for i := range sh.size() {
		s := sh.at(i)
		if !s.isSpilled() {
			continue
		}
		if owners[s.block()] {
			t.Fatal("two slots share a list")
		}
		owners[s.block()] = true
		list := sh.list(s)
		if len(list) == 0 || len(list) > 1 && !s.isApart() && min(list[len(list)-1].At, algorithm.MaxInstant) != s.at() {
			t.Fatalf("a slot of %d holds %v", s.at(), list)
		}
	}
	seen := map[uint32]bool{}
	for b := range owners {
		if i := uint32(b >> offsetBits); !seen[i] {
			seen[i] = true
			taken += int(sh.lists.page(i).taken)
		}
	}
	if taken != len(owners) {
		t.Fatalf("%d blocks are in use by %d slots", taken, len(owners))
	}
}

// Tickets of all shapes against a budget that is far too small for them.
func TestFullStoreStaysSound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one goroutine plays many steps")
	}
	var meters []*algorithm.Meter
	for _, count := range []int64{1, 5, 40, 300} {
		meters = append(meters,
			limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: time.Second, CountDenied: count == 5, Ordinal: uint8(count % 32)}),
			limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: count, Window: time.Second, Ordinal: uint8(count % 32)}),
			limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: count, Window: time.Second, Ordinal: uint8(count % 32)}))
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := open(t, Options{MaxBytes: MinBytes << seed})
		now := algorithm.Instant(1_700_000_000_000_000)
		for step := range 20_000 {
			now += algorithm.Instant(r.Int64N(300))
			ticket := &storage.Ticket{Now: now, Nonce: uint64(step + 1)}
			for g := range 1 + r.IntN(3) {
				group := storage.Group{Subject: subject(r.Uint64N(300)*3 + uint64(g)), Alone: r.IntN(4) == 0}
				for _, m := range r.Perm(len(meters))[:1+r.IntN(3)] {
					group.Charges = append(group.Charges, algorithm.Charge{Meter: meters[m], Cost: r.Int64N(3)})
				}
				ticket.Groups = append(ticket.Groups, group)
			}
			var out storage.Outcome
			if err := s.Take(t.Context(), ticket, &out); err != nil && !errors.Is(err, storage.ErrFull) {
				t.Fatal(err)
			}
			for _, d := range out.Decisions {
				// Groups of one ticket may share a counter. A coarse log of denied requests is cut entry by
				// entry.
				if d.Used > d.Limit+4 && d.Limit != 5 {
					t.Fatalf("seed %d, step %d: %+v", seed, step, d)
				}
			}
			if step%1000 == 0 {
				for i := range s.shards {
					s.shards[i].checkLists(t)
				}
			}
		}
		stats := s.Stats()
		if stats.Bytes > MinBytes<<seed {
			t.Errorf("seed %d: %+v", seed, stats)
		}
		t.Logf("%+v", stats)
	}
}
