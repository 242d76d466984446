package memstore

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

func TestFloodFreesNobody(t *testing.T) {
	const victims, budget = 1000, 4 << 20
	flood := uint64(1_000_000)
	if testing.Short() {
		flood = 200_000
	}
	s := open(t, Options{MaxBytes: budget})
	meters := []*penstock.Meter{
		limit(t, penstock.Limit{Algorithm: penstock.TokenBucket, Count: 3, Window: time.Hour}),
		limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Period: penstock.Year, Count: 3}),
		limit(t, penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 3, Window: time.Hour}),
		limit(t, penstock.Limit{Algorithm: penstock.Concurrency, Count: 3, Window: time.Hour}),
	}
	ticket := single(0, meters[0], 1)
	for n := range uint64(victims) {
		for range 3 {
			ticket.Nonce++
			ticket.Groups[0] = penstock.Group{Subject: subject(n), Charges: []penstock.Charge{{Meter: meters[n%4], Cost: 1}}}
			if !take(t, s, ticket).Allowed {
				t.Fatal("denied too early")
			}
		}
	}
	var out penstock.Outcome
	for n := range flood {
		// Lists too, and with windows that make the flood look more durable than the victims.
		m := meters[1+n%8%3]
		ticket.Nonce++
		ticket.Groups[0] = penstock.Group{Subject: subject(victims + n), Charges: []penstock.Charge{{Meter: m, Cost: 1}}}
		if err := s.Take(t.Context(), ticket, &out); err != nil && !errors.Is(err, penstock.ErrFull) {
			t.Fatal(err)
		}
		if n%100_000 == 0 {
			if bytes := s.Stats().Bytes; bytes > budget {
				t.Fatalf("%d bytes used of %d", bytes, budget)
			}
		}
	}
	for n := range uint64(victims) {
		ticket.Nonce++
		ticket.Groups[0] = penstock.Group{Subject: subject(n), Charges: []penstock.Charge{{Meter: meters[n%4], Cost: 1}}}
		if take(t, s, ticket).Allowed {
			t.Fatalf("victim %d got a token back", n)
		}
	}
	stats := s.Stats()
	t.Logf("%+v", stats)
	if stats.Evicted < int64(flood/4) || stats.Refused > int64(flood/100) || stats.Bytes > budget {
		t.Errorf("stats %+v", stats)
	}
}

func TestFullOfTheSpent(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	once := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: time.Hour})
	twice := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 2, Window: time.Hour, Ordinal: 1})
	at := func(n uint64, m *penstock.Meter, now penstock.Instant) error {
		ticket := single(n, m, 1)
		ticket.Now = now
		return s.Take(t.Context(), ticket, new(penstock.Outcome))
	}
	const now = 7_200_000_000
	n := uint64(0)
	for ; at(n, once, now) == nil; n++ {
		if n > MinBytes {
			t.Fatal("never full")
		}
	}
	if err := at(n, once, now); !errors.Is(err, penstock.ErrFull) || !errors.Is(err, penstock.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if stats := s.Stats(); stats.Refused == 0 || stats.Evicted != 0 || stats.Bytes > MinBytes || stats.Keys < MinBytes/slotSize/2 {
		t.Errorf("stats %+v", stats)
	}
	// A ticket that finds no room for one of its groups charges none, alone or not.
	ticket := single(0, twice, 1)
	ticket.Now = now
	before := s.Stats()
	ticket.Groups[0].Subject = subject(n + 1)
	for _, alone := range []bool{false, true} {
		known := single(1, once, 1)
		known.Now = now
		known.Groups[0].Alone = alone
		known.Groups = append(known.Groups, ticket.Groups...)
		err := s.Take(t.Context(), known, new(penstock.Outcome))
		if !alone && err != nil { // denied by what is spent, so nothing is to be added
			t.Errorf("a denied ticket: %v", err)
		}
		if alone && !errors.Is(err, penstock.ErrFull) {
			t.Errorf("got %v", err)
		}
	}
	if after := s.Stats(); after.Keys != before.Keys {
		t.Errorf("from %+v to %+v", before, after)
	}
	// Once their time is over, there is room again.
	if err := at(n, once, 2*now); err != nil {
		t.Error(err)
	}
}

// When a list finds no room, what the ticket charges elsewhere must not have been charged.
func TestNoRoomForAList(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	log := limit(t, penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: penstock.MaxLog, Window: time.Hour})
	window := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000, Window: time.Hour})
	ticket := single(1, log, 1)
	ticket.Now = 7_200_000_000
	ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, penstock.Charge{Meter: window, Cost: 1})
	var out penstock.Outcome
	var err error
	passed := int64(0)
	for ; err == nil && passed < MinBytes; passed++ {
		err = s.Take(t.Context(), ticket, &out)
	}
	passed--
	if !errors.Is(err, penstock.ErrFull) {
		t.Fatalf("after %d: %v", passed, err)
	}
	ticket.Groups[0].Charges[0].Cost = 0
	ticket.Groups[0].Charges[1].Cost = 0
	out = *take(t, s, ticket)
	if out.Decisions[0].Used != passed || out.Decisions[1].Used != passed {
		t.Errorf("%d passed, used %d and %d", passed, out.Decisions[0].Used, out.Decisions[1].Used)
	}
	if stats := s.Stats(); stats.Bytes > MinBytes {
		t.Errorf("stats %+v", stats)
	}
}

// checkLists fails unless every list belongs to exactly one slot. Those of several entries that are
// not apart are logs or leases, and date their slot by the last one.
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
		if len(list) == 0 || len(list) > 1 && !s.isApart() && min(list[len(list)-1].At, penstock.MaxInstant) != s.at() {
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

// Tickets of all shapes against a budget far too small for them.
func TestFullStoreStaysSound(t *testing.T) {
	var meters []*penstock.Meter
	for _, count := range []int64{1, 5, 40, 300} {
		meters = append(meters,
			limit(t, penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: count, Window: time.Second, CountDenied: count == 5, Ordinal: uint8(count % 32)}),
			limit(t, penstock.Limit{Algorithm: penstock.Concurrency, Count: count, Window: time.Second, Ordinal: uint8(count % 32)}),
			limit(t, penstock.Limit{Algorithm: penstock.TokenBucket, Count: count, Window: time.Second, Ordinal: uint8(count % 32)}))
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := open(t, Options{MaxBytes: MinBytes << seed})
		now := penstock.Instant(1_700_000_000_000_000)
		for step := range 20_000 {
			now += penstock.Instant(r.Int64N(300))
			ticket := &penstock.Ticket{Now: now, Nonce: uint64(step + 1)}
			for g := range 1 + r.IntN(3) {
				group := penstock.Group{Subject: subject(r.Uint64N(300)*3 + uint64(g)), Alone: r.IntN(4) == 0}
				for _, m := range r.Perm(len(meters))[:1+r.IntN(3)] {
					group.Charges = append(group.Charges, penstock.Charge{Meter: meters[m], Cost: r.Int64N(3)})
				}
				ticket.Groups = append(ticket.Groups, group)
			}
			var out penstock.Outcome
			if err := s.Take(t.Context(), ticket, &out); err != nil && !errors.Is(err, penstock.ErrFull) {
				t.Fatal(err)
			}
			for _, d := range out.Decisions {
				if d.Used > d.Limit+2 { // a denied call of 2 was counted
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
		if stats.Evicted == 0 || stats.Bytes > MinBytes<<seed {
			t.Errorf("seed %d: %+v", seed, stats)
		}
		t.Logf("%+v", stats)
	}
}
