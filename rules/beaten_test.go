package rules

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// If a limit is said to beat another, the other alone never denies a request.
func TestBeats(t *testing.T) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	hasher := storage.NewHasher("")
	subjects, checked := 0, 0
	limit := rapid.Custom(func(t *rapid.T) penstock.Limit {
		l := penstock.Limit{
			Algorithm: penstock.Algorithm(rapid.IntRange(1, 4).Draw(t, "algorithm")),
			Count:     rapid.Int64Range(1, 12).Draw(t, "count"),
			Window:    time.Duration(rapid.IntRange(1, 12).Draw(t, "window")) * time.Second,
		}
		if l.Algorithm == penstock.TokenBucket {
			l.Burst = rapid.Int64Range(0, 5).Draw(t, "burst")
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := limit.Draw(t, "a"), limit.Draw(t, "b")
		b.Count *= rapid.Int64Range(1, 10).Draw(t, "times")
		if !beats(&a, &b) {
			t.Skip("nothing is said")
		}
		checked++
		b.Ordinal = 1
		subjects++
		ticket := storage.Ticket{
			Now: penstock.InstantOf(testNow),
			Groups: []storage.Group{{
				Subject: hasher.Subject("d", "r", penstock.Attribute{Name: "n", Value: time.Duration(subjects).String()}),
				Charges: []algorithm.Charge{{Meter: a.MustCompile()}, {Meter: b.MustCompile()}},
			}},
		}
		var out storage.Outcome
		for range rapid.IntRange(10, 200).Draw(t, "calls") {
			ticket.Now += penstock.Instant(rapid.SampledFrom([]int64{0, 0, 1, 1000, 250_000, 999_999, 1_000_000, 3_000_000}).Draw(t, "later"))
			cost := rapid.Int64Range(1, 3).Draw(t, "cost")
			ticket.Groups[0].Charges[0].Cost, ticket.Groups[0].Charges[1].Cost = cost, cost
			if err := store.Take(context.Background(), &ticket, &out); err != nil {
				t.Fatal(err)
			}
			if out.Decisions[0].Allowed && !out.Decisions[1].Allowed {
				t.Fatalf("%v passes what %v denies", &a, &b)
			}
		}
	})
	if checked == 0 {
		t.Error("nothing was checked")
	}
}
