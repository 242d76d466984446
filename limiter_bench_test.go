package penstock_test

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
)

// BenchmarkAllow is a decision for one hot key of 16 characters, as bench -only memory measures it.
func BenchmarkAllow(b *testing.B) {
	const key = "key-000000000042"
	for _, bench := range []struct {
		name  string
		limit penstock.Limit
	}{
		{"bucket", penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1_000_000_000, Window: time.Hour}},
		{"bucket denied", penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1, Window: time.Hour}},
		{"counter", penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 1_000_000_000, Window: time.Hour}},
		{"window", penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000_000, Window: time.Hour}},
	} {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			b.Fatal(err)
		}
		limiter, err := penstock.New(store, bench.limit)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := limiter.Take(b.Context(), key, max(1, bench.limit.Count/2)); err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		allow := func(b *testing.B) {
			if _, err := limiter.Allow(ctx, key); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				allow(b)
			}
		})
		b.Run(bench.name+", parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					allow(b)
				}
			})
		})
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
