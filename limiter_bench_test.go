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
		name   string
		limit  penstock.Limit
		others []penstock.Option
	}{
		{name: "bucket", limit: penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1_000_000_000, Window: time.Hour}},
		{name: "bucket denied", limit: penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1, Window: time.Hour}},
		{name: "counter", limit: penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 1_000_000_000, Window: time.Hour}},
		{"two limits", penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1_000_000_000, Window: time.Hour}, []penstock.Option{
			penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000_000, Window: 24 * time.Hour},
		}},
		{name: "window", limit: penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000_000, Window: time.Hour}},
	} {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			b.Fatal(err)
		}
		limiter, err := penstock.New(store, append(bench.others, bench.limit)...)
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
