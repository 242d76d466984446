package memstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A caller decides repeatedly with one ticket and one outcome, as servers do. It hashes the subject from a
// name that was just read, so the name is already in the cache.
type caller struct {
	hasher  storage.RuleHasher
	ticket  storage.Ticket
	outcome storage.Outcome
	random  rand.PCG
	name    [32]byte
}

func newCaller(meters ...*algorithm.Meter) *caller {
	c := &caller{hasher: storage.NewHasher("bench").Rule("bench", "rule", "user")}
	c.random.Seed(rand.Uint64(), 1)
	group := storage.Group{}
	for _, m := range meters {
		group.Charges = append(group.Charges, algorithm.Charge{Meter: m, Cost: 1})
	}
	c.ticket = storage.Ticket{Nonce: 1, Groups: []storage.Group{group}}
	return c
}

func (c *caller) subject(n uint64) storage.Subject {
	name := strconv.AppendUint(append(c.name[:0], "user-"...), n, 10)
	return c.hasher.Subject(unsafe.String(&name[0], len(name)))
}

func (c *caller) take(b *testing.B, s *Store, n uint64) {
	c.ticket.Groups[0].Subject = c.subject(n)
	if err := s.Take(b.Context(), &c.ticket, &c.outcome); err != nil {
		b.Fatal(err)
	}
}

// The counts are so large that nothing is denied: a denial would cost a clock read.
var (
	benchBucket  = algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 100_000, Window: time.Hour, Burst: 500_000_000}.MustCompile()
	benchWindow  = algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1_000_000_000, Window: time.Hour}.MustCompile()
	benchCounter = algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1_000_000_000, Window: time.Minute}.MustCompile()
	benchLog     = algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100_000, Window: time.Second}.MustCompile()
)

func BenchmarkTake(b *testing.B) {
	for _, bench := range []struct {
		name   string
		keys   uint64
		meters []*algorithm.Meter
	}{
		{"bucket, one key", 1, []*algorithm.Meter{benchBucket}},
		{"log, thousand keys", 1000, []*algorithm.Meter{benchLog}},
		{"bucket", 1_000_000, []*algorithm.Meter{benchBucket}},
		{"three limits", 1_000_000, []*algorithm.Meter{benchBucket, benchWindow, benchCounter}},
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

// BenchmarkTakeEach decides 32 tickets at a time, each after hashing its subject.
func BenchmarkTakeEach(b *testing.B) {
	for _, keys := range []uint64{1, 1_000_000} {
		s := open(b, Options{})
		c := newCaller(benchBucket)
		for n := range keys {
			c.take(b, s, n)
		}
		turns := make([]storage.BatchItem, 32)
		for i := range turns {
			turns[i].Ticket = newCaller(benchBucket).ticket
		}
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				at := n % len(turns)
				turns[at].Ticket.Groups[0].Subject = c.subject(c.random.Uint64() % keys)
				if at == len(turns)-1 {
					s.TakeEach(b.Context(), turns)
				}
			}
		})
	}
}

func BenchmarkClock(b *testing.B) {
	s := open(b, Options{})
	for b.Loop() {
		s.clock.now()
	}
}
