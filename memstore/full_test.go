package memstore

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// fill takes all slots with state that cannot be evicted, and returns groups that hold one slot each. No
// room is left for lists.
func fill(t *testing.T, s *Store, now algorithm.Instant) (slots []storage.Group) {
	t.Helper()
	one := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: 24 * time.Hour})
	for n := uint64(0); ; n++ {
		ticket := single(n, one, 1)
		ticket.Now = now
		if s.shardOf(&ticket.Groups[0].Subject).makeRoom(1, &roomRequest{ticket: ticket, seed: s.seed, now: now}) != nil {
			break
		}
		take(t, s, ticket)
		slots = append(slots, ticket.Groups[0])
	}
	s.memory.max = (s.memory.tables + s.memory.frames.bytes) * keptForShared / (keptForShared - 1)
	return slots
}

// A request that finds no room for one of its guards changes nothing.
func TestNoRoomForAGuard(t *testing.T) {
	const now = algorithm.Instant(1_700_000_000_000_000)
	s := open(t, Options{MaxBytes: MinBytes}) // one shard
	slots := fill(t, s, now)
	free := func(groups ...storage.Group) {
		for i := range groups {
			if err := s.Reset(t.Context(), &groups[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: 24 * time.Hour})
	tight := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: 24 * time.Hour, Ordinal: 1})
	other := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Window: 24 * time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Minute})
	me := subject(5_000_000)
	ask := func(g storage.Group) (storage.Outcome, error) {
		g.Subject = me
		var out storage.Outcome
		err := s.Take(t.Context(), &storage.Ticket{Now: now, Nonce: 1, Groups: []storage.Group{g}}, &out)
		return out, err
	}
	must := func(g storage.Group) storage.Outcome {
		t.Helper()
		out, err := ask(g)
		if err != nil || !out.Allowed {
			t.Fatal(out, err)
		}
		return out
	}
	settle := func(charges ...algorithm.Charge) error {
		return s.Settle(t.Context(), &storage.Settlement{Now: now, Subject: me, Nonce: 1, Charges: charges}, new(storage.SettleOutcome))
	}
	type everything struct {
		Outcome      storage.Outcome
		Reservations []storage.Reservation
		Keys         int64
	}
	look := func() (all everything) {
		all.Outcome = must(storage.Group{Penalty: penalty, Charges: []algorithm.Charge{{Meter: m}, {Meter: other}, {Meter: tight}}})
		all.Reservations, _, _ = s.Reservations(t.Context(), now, me, 10)
		all.Keys = s.Stats().Keys
		return all
	}
	isRefused := func(name string, try func() error) {
		t.Helper()
		before := look()
		if err := try(); !errors.Is(err, storage.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}

	charges := []algorithm.Charge{{Meter: m, Cost: 1}}
	free(slots[:2]...)
	must(storage.Group{Charges: append(charges, algorithm.Charge{Meter: tight, Cost: 1})})
	isRefused("reservation", func() error {
		_, err := ask(storage.Group{Charges: charges, Reserve: time.Hour})
		return err
	})
	for range 2 { // no record can be kept
		if out := must(storage.Group{Charges: charges, Dedup: dedupOf(t, time.Hour), Call: call(1)}); out.Groups[0].Replay {
			t.Errorf("a duplicate that was not recorded: %+v", out)
		}
	}
	for _, alone := range []bool{false, true} { // nor a strike
		out, err := ask(storage.Group{Charges: []algorithm.Charge{{Meter: tight, Cost: 1}}, Penalty: penalty, Alone: alone})
		if err != nil || out.Groups[0].Allowed || out.Groups[0].Strikes != 0 || out.Groups[0].BannedUntil != 0 {
			t.Errorf("a strike, alone %v: %+v, %v", alone, out, err)
		}
	}
	isRefused("ban", func() error {
		_, err := s.Ban(t.Context(), &storage.Ban{Now: now, Subject: me, Penalty: penalty, Length: time.Hour})
		return err
	})
	s.memory.max = (s.memory.tables + int64(s.memory.extent)) * 16 / 13 // a slot, but no list
	isRefused("reservation without a list", func() error {
		_, err := ask(storage.Group{Charges: charges, Reserve: time.Hour})
		return err
	})
	s.memory.max += frameBytes*keptForShared/(keptForShared-1) + 1 // and short lists
	must(storage.Group{Charges: charges, Reserve: time.Hour})
	isRefused("settlement without a slot", func() error {
		return settle(algorithm.Charge{Meter: m, Cost: 0}, algorithm.Charge{Meter: other, Cost: 2})
	})
	free(slots[3])
	isRefused("settlement without a list", func() error {
		return settle(algorithm.Charge{Meter: m, Cost: 2}, algorithm.Charge{Meter: other, Cost: 2})
	})
	if err := settle(algorithm.Charge{Meter: m, Cost: 3}); err != nil {
		t.Errorf("a settlement that needs no room: %v", err)
	}
	for i := range s.shards {
		s.shards[i].checkLists(t)
	}
}

// Tickets, settlements and bans of all shapes against a budget that is far too small for them.
func TestFullStoreStaysSoundWithGuards(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	var meters []*algorithm.Meter
	for _, count := range []int64{1, 5, 40, 300} {
		ordinal := uint8(count % 32)
		meters = append(meters,
			limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: time.Second, Overdraft: 3, Ordinal: ordinal}),
			limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: count, Window: time.Second, Ordinal: ordinal}),
			limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: count * 15_000_000, Window: time.Second, Ordinal: ordinal}), // the last is wide
			limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: count, Window: time.Second, Overdraft: 3, Ordinal: ordinal}))
	}
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 3, Within: time.Second, Bans: []time.Duration{100 * time.Millisecond, time.Second}, ForgiveAfter: time.Second})
	dedup := dedupOf(t, 300*time.Millisecond)
	steps := 20_000
	if testing.Short() {
		steps = 5000
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 6))
		s := open(t, Options{MaxBytes: MinBytes << seed})
		now := algorithm.Instant(1_700_000_000_000_000)
		var recent []storage.Settlement
		fail := map[bool]int{}
		for step := range steps {
			now += algorithm.Instant(r.Int64N(300))
			ticket := &storage.Ticket{Now: now, Nonce: uint64(step + 1)}
			for n := range 1 + r.IntN(3) {
				g := storage.Group{Subject: subject(r.Uint64N(300)*3 + uint64(n)), Alone: r.IntN(4) == 0}
				for _, m := range r.Perm(len(meters))[:1+r.IntN(4)] {
					g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[m], Cost: r.Int64N(3), Overdraw: meters[m].Overdraft > 0 && r.IntN(3) == 0})
				}
				if r.IntN(2) == 0 {
					g.Penalty = penalty
				}
				if r.IntN(2) == 0 {
					g.Dedup, g.Call = dedup, call(r.Uint64N(50))
				}
				if r.IntN(2) == 0 {
					g.Reserve = time.Duration(1+r.IntN(500)) * time.Millisecond
					recent = append(recent, storage.Settlement{Subject: g.Subject, Nonce: ticket.Nonce, Charges: g.Charges})
				}
				ticket.Groups = append(ticket.Groups, g)
			}
			err := s.Take(t.Context(), ticket, new(storage.Outcome))
			if err != nil && !errors.Is(err, storage.ErrFull) {
				t.Fatal(err)
			}
			fail[err != nil]++
			if r.IntN(2) == 0 && len(recent) > 0 {
				what := recent[max(0, len(recent)-1-r.IntN(40))]
				what.Now, what.Verb, what.TTL = now, storage.Verb(r.IntN(3)), time.Second
				what.Overage = algorithm.Overage(r.IntN(3))
				what.Charges = append([]algorithm.Charge(nil), what.Charges...)
				for i := range what.Charges {
					what.Charges[i].Cost = r.Int64N(4)
				}
				err := s.Settle(t.Context(), &what, new(storage.SettleOutcome))
				if err != nil && !errors.Is(err, storage.ErrFull) && !errors.Is(err, storage.ErrNoReservation) && !errors.Is(err, storage.ErrClosed) {
					t.Fatal(err)
				}
			}
			g := &ticket.Groups[0]
			switch r.IntN(50) {
			case 0:
				if err := s.Reset(t.Context(), g); err != nil {
					t.Fatal(err)
				}
				if _, total, err := s.Reservations(t.Context(), now, g.Subject, 1); total != 0 || err != nil {
					t.Fatal(total, err)
				}
			case 1:
				ban := &storage.Ban{Now: now, Subject: g.Subject, Penalty: penalty, Length: time.Duration(r.IntN(2)) * time.Second}
				if _, err := s.Ban(t.Context(), ban); err != nil && !errors.Is(err, storage.ErrFull) {
					t.Fatal(err)
				}
			}
			if step%1000 == 0 {
				for i := range s.shards {
					s.shards[i].checkLists(t)
				}
			}
		}
		stats := s.Stats()
		if stats.Bytes > MinBytes<<seed || fail[false] < 1000 {
			t.Errorf("seed %d: %d taken, %+v", seed, fail[false], stats)
		}
		t.Logf("%d taken, %+v", fail[false], stats)
	}
}

// A refund adds no counter: a key that shares one gets nothing back, and the store does not grow.
func TestRefundAddsNoCounter(t *testing.T) {
	const now = algorithm.Instant(1_700_000_000_000_000)
	s := open(t, Options{MaxBytes: MinBytes})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1_000_000, Window: time.Hour})
	fill(t, s, now)
	ask := func(n uint64) storage.Group {
		ticket := single(1<<40+n, m, 3)
		ticket.Now = now
		take(t, s, ticket)
		return ticket.Groups[0]
	}
	const keys = 3000
	for n := range uint64(keys) {
		ask(n)
	}
	before := s.Stats()
	if before.Shared == 0 {
		t.Fatalf("nothing is shared: %+v", before)
	}
	for n := range uint64(keys) {
		g := ask(n)
		g.Charges[0].Cost = 1
		refund := &storage.Settlement{Now: now, Subject: g.Subject, Verb: storage.Refund, Charges: g.Charges}
		if err := s.Settle(t.Context(), refund, new(storage.SettleOutcome)); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.Stats(); after != before {
		t.Errorf("%+v before the refunds, %+v after them", before, after)
	}
}
