package storage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// forgetfulStore is a store that cannot list reservations.
type forgetfulStore struct{ *storetest.Model }

var errForgotten = errors.New("forgotten")

func (forgetfulStore) Reservations(context.Context, algorithm.Instant, storage.Subject, int) ([]storage.Reservation, int64, error) {
	return nil, 0, errForgotten
}

// Inspect returns counters, strikes, ban and reservations of a client under two rules, and changes nothing.
func TestInspect(t *testing.T) {
	ctx, store, now := t.Context(), storetest.NewModel(), algorithm.Instant(1_700_000_000_000_000)
	hasher := storage.NewHasher("")
	perMinute := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute}.MustCompile()
	perHour := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Hour}.MustCompile()
	penalty, err := algorithm.PenaltyTerms{After: 2, Within: time.Hour, Bans: []time.Duration{time.Minute}, ForgiveAfter: time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	search := storage.Group{Subject: hasher.Subject("shop", "search"), Penalty: penalty, Charges: []algorithm.Charge{{Meter: perMinute, Cost: 3}}}
	export := storage.Group{Subject: hasher.Subject("shop", "export"), Reserve: time.Minute, Charges: []algorithm.Charge{{Meter: perMinute, Cost: 1}, {Meter: perHour, Cost: 4}}}
	for i, g := range []storage.Group{search, search, export, export} {
		var out storage.Outcome
		if err := store.Take(ctx, &storage.Ticket{Now: now, Nonce: uint64(i + 1), Groups: []storage.Group{g}}, &out); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		seen, err := storage.Inspect(ctx, store, now, []storage.Group{search, export}, 1)
		if err != nil {
			t.Fatal(err)
		}
		s, e := seen[0], seen[1]
		if s.Subject != search.Subject || s.Group.Strikes != 1 || s.Group.BannedUntil != 0 || len(s.Decisions) != 1 || s.Decisions[0].Used != 3 || s.Reserved != 0 {
			t.Errorf("search: %+v", s)
		}
		if e.Subject != export.Subject || len(e.Decisions) != 2 || e.Decisions[0].Used != 2 || e.Decisions[1].Used != 8 {
			t.Errorf("export: %+v", e)
		}
		if e.Reserved != 2 || len(e.Reservations) != 1 || e.Reservations[0].Nonce != 3 || e.Reservations[0].Receipts[1].Cost != 4 {
			t.Errorf("of two reservations of export, the first: %d, %+v", e.Reserved, e.Reservations)
		}
	}
	if _, err := storage.Inspect(ctx, store, now, nil, 1); !errors.Is(err, algorithm.ErrInvalid) {
		t.Errorf("nothing to inspect: %v", err)
	}
	if _, err := storage.Inspect(ctx, forgetfulStore{store}, now, []storage.Group{search}, 1); !errors.Is(err, errForgotten) {
		t.Errorf("a store that cannot say what is reserved: %v", err)
	}
}
