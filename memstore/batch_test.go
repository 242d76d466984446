package memstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A batch decides the same as its tickets one by one, and an error belongs to its turn.
func TestTakeEachIsTakeInOrder(t *testing.T) {
	meters := []*algorithm.Meter{
		algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Second}.MustCompile(),
		algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 4, Window: time.Second}.MustCompile(),
		algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 5, Window: time.Second}.MustCompile(),
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	model, ctx := storetest.NewModel(), context.Background()
	r := rand.New(rand.NewPCG(1, 1))
	now := algorithm.Instant(1_700_000_000_000_000)
	allowed, denied := 0, 0
	for size := range 60 {
		turns := make([]storage.BatchItem, size)
		for i := range turns {
			now += algorithm.Instant(r.IntN(50_000))
			turns[i].Ticket = storage.Ticket{Now: now}
			for _, subject := range r.Perm(4)[:1+r.IntN(2)] {
				group := storage.Group{Subject: storage.Subject{byte(subject), 9: byte(subject)}}
				for _, m := range r.Perm(len(meters))[:1+r.IntN(len(meters))] {
					group.Charges = append(group.Charges, algorithm.Charge{Meter: meters[m], Cost: r.Int64N(3)})
				}
				turns[i].Ticket.Groups = append(turns[i].Ticket.Groups, group)
			}
		}
		if size > 10 {
			turns[5].Ticket.Groups = nil
		}
		store.TakeEach(ctx, turns)
		for i := range turns {
			var want storage.Outcome
			err := model.Take(ctx, &turns[i].Ticket, &want)
			if err != nil {
				if !errors.Is(turns[i].Err, algorithm.ErrInvalid) {
					t.Fatalf("turn %d: error %v, want %v", i, turns[i].Err, err)
				}
				continue
			}
			if turns[i].Err != nil {
				t.Fatalf("turn %d: %v", i, turns[i].Err)
			}
			if diff := cmp.Diff(want, turns[i].Outcome); diff != "" {
				t.Fatalf("turn %d of %d (-want +got):\n%s", i, size, diff)
			}
			if want.Allowed {
				allowed++
			} else {
				denied++
			}
		}
	}
	if allowed < 100 || denied < 100 {
		t.Errorf("%d allowed, %d denied: not much of a test", allowed, denied)
	}
}

// A batch whose context has ended charges nothing, whatever its tickets are.
func TestTakeEachAfterTheEnd(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Second}.MustCompile()
	log := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Second}.MustCompile()
	turns := make([]storage.BatchItem, 20)
	for i := range turns {
		turns[i].Ticket.Groups = []storage.Group{{Charges: []algorithm.Charge{{Meter: [...]*algorithm.Meter{m, log}[i%2], Cost: 1}}}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store.TakeEach(ctx, turns)
	for i := range turns {
		if !errors.Is(turns[i].Err, storage.ErrUnavailable) || !errors.Is(turns[i].Err, context.Canceled) {
			t.Errorf("turn %d: error %v, want %v", i, turns[i].Err, context.Canceled)
		}
	}
	if keys, err := store.Size(t.Context()); err != nil || keys != 0 {
		t.Errorf("%d keys, error %v; want none", keys, err)
	}
	store.TakeEach(t.Context(), turns)
	for i := range turns {
		if want := i/2 < 3; turns[i].Err != nil || turns[i].Outcome.Allowed != want {
			t.Errorf("turn %d: allowed %v, error %v; want %v, as nothing was charged before", i, turns[i].Outcome.Allowed, turns[i].Err, want)
		}
	}
}
