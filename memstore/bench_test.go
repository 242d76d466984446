package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/penstock-io/penstock"
)

// A caller decides over and over with one ticket and one outcome, as servers do. The subject is
// hashed from a name that was just read, so it is not the name that has to come from memory.
type caller struct {
	hasher  penstock.Hasher
	ticket  penstock.Ticket
	outcome penstock.Outcome
	random  rand.PCG
	name    [32]byte
}

func newCaller(meters ...*penstock.Meter) *caller {
	c := &caller{hasher: penstock.NewHasher("bench")}
	c.random.Seed(rand.Uint64(), 1)
	group := penstock.Group{}
	for _, m := range meters {
		group.Charges = append(group.Charges, penstock.Charge{Meter: m, Cost: 1})
	}
	c.ticket = penstock.Ticket{Nonce: 1, Groups: []penstock.Group{group}}
	return c
}

func (c *caller) take(b *testing.B, s *Store, n uint64) {
	name := strconv.AppendUint(append(c.name[:0], "user-"...), n, 10)
	key := penstock.Attribute{Name: "user", Value: unsafe.String(&name[0], len(name))}
	c.ticket.Groups[0].Subject = c.hasher.Subject("bench", "rule", key)
	if err := s.Take(b.Context(), &c.ticket, &c.outcome); err != nil {
		b.Fatal(err)
	}
}

// The counts are so large that nothing is denied: that would cost a clock read.
var (
	benchBucket  = penstock.Limit{Algorithm: penstock.TokenBucket, Count: 100_000, Window: time.Hour, Burst: 500_000_000}.MustCompile()
	benchWindow  = penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000_000, Window: time.Hour}.MustCompile()
	benchCounter = penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 1_000_000_000, Window: time.Minute}.MustCompile()
	benchLog     = penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 100_000, Window: time.Second}.MustCompile()
)

func BenchmarkTake(b *testing.B) {
	for _, bench := range []struct {
		name   string
		keys   uint64
		meters []*penstock.Meter
	}{
		{"bucket, one key", 1, []*penstock.Meter{benchBucket}},
		{"log, thousand keys", 1000, []*penstock.Meter{benchLog}},
		{"bucket", 1_000_000, []*penstock.Meter{benchBucket}},
		{"three limits", 1_000_000, []*penstock.Meter{benchBucket, benchWindow, benchCounter}},
	} {
		s := open(b, Options{})
		c := newCaller(bench.meters...)
		for n := range bench.keys {
			c.take(b, s, n)
		}
		b.Run(bench.name, func(b *testing.B) {
			c := newCaller(bench.meters...)
			b.ReportAllocs()
			for b.Loop() {
				c.take(b, s, c.random.Uint64()%bench.keys)
			}
		})
		b.Run(bench.name+", parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				c := newCaller(bench.meters...)
				for pb.Next() {
					c.take(b, s, c.random.Uint64()%bench.keys)
				}
			})
		})
	}
}
