package memstore

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// busyRates are how long one key is busy in virtual time, with how many requests/s, and within which MaxBytes. The long
// version is an hour; the others take longer than a closed reservation is kept.
func busyRates() []busyRate {
	if os.Getenv("PENSTOCK_TEST_LONG") == "1" {
		return []busyRate{{time.Hour, 20_000, 64 << 20}, {time.Hour, 20_000, DefaultMaxBytes}}
	}
	return []busyRate{{25 * time.Second, 2000, 2 << 20}, {25 * time.Second, 2000, 64 << 20}}
}

type busyRate struct {
	time     time.Duration
	requests int // a second
	maxBytes int64
}

// A busyKey is one key whose requests are reserved and settled a moment later.
type busyKey struct {
	t       *testing.T
	store   *Store
	group   storage.Group
	perStep int
	sent    uint64
	denied  int
	most    int64 // bytes used
}

const busyStep = 10 * time.Millisecond

// step sends the requests of a step. Their responses come in the next one.
func (b *busyKey) step(settles bool) {
	var out storage.Outcome
	var settled storage.SettleOutcome
	for range b.perStep {
		b.sent++
		ticket := storage.Ticket{Nonce: b.sent, Groups: []storage.Group{b.group}}
		if err := b.store.Take(b.t.Context(), &ticket, &out); err != nil || !out.Allowed {
			b.denied++
		}
		if before := b.sent - uint64(b.perStep); settles && before > 0 && before < b.sent {
			s := storage.Settlement{Subject: b.group.Subject, Nonce: before, Charges: []algorithm.Charge{{Meter: b.group.Charges[0].Meter, Cost: 2}}}
			if err := b.store.Settle(b.t.Context(), &s, &settled); err != nil {
				b.t.Fatalf("settle %d: %v", before, err)
			}
		}
	}
	time.Sleep(busyStep)
	if b.sent%uint64(100*b.perStep) == 0 {
		b.most = max(b.most, b.store.Stats().Bytes)
	}
}

func newBusyKey(t *testing.T, maxBytes int64, perSecond int, reserve time.Duration) *busyKey {
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1_000_000_000, Window: time.Hour})
	return &busyKey{t: t, store: open(t, Options{MaxBytes: maxBytes}), perStep: perSecond * int(busyStep) / int(time.Second),
		group: storage.Group{Subject: subject(1), Charges: []algorithm.Charge{{Meter: m, Cost: 1}}, Reserve: reserve}}
}

// One key whose cost comes with the response is never denied for lack of memory, and uses little.
func TestBusyKeyIsNotDenied(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	for _, rate := range busyRates() {
		synctest.Test(t, func(t *testing.T) {
			b := newBusyKey(t, rate.maxBytes, rate.requests, 5*time.Minute)
			defer b.store.Close()
			for range int(rate.time / busyStep) {
				b.step(true)
			}
			if b.denied > 0 || b.most > rate.maxBytes || b.most > min(int64(rate.requests)*3500, 64<<20) {
				t.Errorf("%d of %d denied, %d bytes used of %d; %+v", b.denied, b.sent, b.most, rate.maxBytes, b.store.Stats())
			}
			if s := b.store.Stats(); s.Evicted > 0 != (rate.maxBytes == 2<<20) && rate.time < time.Hour {
				t.Errorf("forgotten early for lack of memory: %+v", s)
			}
			t.Logf("%d bytes, %+v", b.most, b.store.Stats())
		})
	}
}

// Requests that are never settled, and kept for a refund by their name, are forgotten when there is no more room: the
// oldest first. Other limits keep their room.
func TestOldestRefundsAreForgotten(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	synctest.Test(t, func(t *testing.T) {
		b := newBusyKey(t, 4<<20, 2000, time.Hour)
		defer b.store.Close()
		b.group.RefundOnly = true
		for range 4000 {
			b.step(false)
		}
		stats := b.store.Stats()
		if b.denied > 0 || b.most > 4<<20 || stats.Evicted == 0 {
			t.Fatalf("%d of %d denied, %+v", b.denied, b.sent, stats)
		}
		kept, total, err := b.store.Reservations(t.Context(), 0, b.group.Subject, 1<<20)
		if err != nil || total < 10_000 {
			t.Fatal(total, err)
		}
		// What is left is what came last, but for a few: a victim is chosen from a sample.
		old := 0
		for _, r := range kept {
			if r.Nonce < b.sent-2*uint64(total) {
				old++
			}
		}
		if old > len(kept)/10 {
			t.Errorf("%d of %d reservations are older than twice their number", old, len(kept))
		}
		var out storage.SettleOutcome
		last := storage.Settlement{Subject: b.group.Subject, Nonce: b.sent, Verb: storage.Release, Charges: b.group.Charges}
		if err := b.store.Settle(t.Context(), &last, &out); err != nil || out.Again {
			t.Errorf("the last request is not refunded: %+v, %v", out, err)
		}
		// Half of the memory is left for counters.
		one := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour})
		for n := range uint64(30_000) {
			take(t, b.store, single(1000+n, one, 1))
		}
		if s := b.store.Stats(); s.Shared > 0 {
			t.Errorf("counters are shared: %+v", s)
		}
	})
}

// What may be forgotten is not in the way of what may not: open reservations use the rest of the memory.
func TestOpenReservationsAreKept(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	synctest.Test(t, func(t *testing.T) {
		b := newBusyKey(t, 4<<20, 2000, time.Hour)
		defer b.store.Close()
		for b.denied == 0 {
			b.step(false)
		}
		stats := b.store.Stats()
		_, total, err := b.store.Reservations(t.Context(), 0, b.group.Subject, 1)
		if err != nil || uint64(total) != b.sent-uint64(b.denied) || stats.Evicted > 0 || total < 20_000 {
			t.Errorf("%d are open of %d, %+v, %v", total, b.sent, stats, err)
		}
	})
}
