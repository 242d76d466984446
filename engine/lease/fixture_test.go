package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// monday is the instant at which traces with a clock of their own begin: a full hour, so that windows
// of every length that is tested begin there too.
const monday = penstock.Instant(1_794_873_600_000_000)

const (
	ms     = penstock.Instant(1000)
	second = 1000 * ms
)

var (
	hasher    = storage.NewHasher("lease tests")
	strangers atomic.Int64
)

// stranger returns a subject that no store has seen.
func stranger() storage.Subject { return hasher.Subject("test", fmt.Sprint(strangers.Add(1))) }

const little = 1 << 20 // bytes, for the few subjects of a test

func perSecond(count int64) *algorithm.Meter {
	return penstock.Limit{Algorithm: penstock.FixedWindow, Count: count, Window: time.Second}.MustCompile()
}

func memory(t testing.TB, maxBytes int64) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func around(t testing.TB, inner penstock.Store) *Store {
	t.Helper()
	s, err := New(storetest.Full(inner), Options{Pools: MinPools})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leased is a group that a lease may decide.
func leased(subject storage.Subject, cost int64, meters ...*algorithm.Meter) storage.Group {
	g := storage.Group{Subject: subject, Leased: true}
	for _, m := range meters {
		g.Charges = append(g.Charges, algorithm.Charge{Meter: m, Cost: cost})
	}
	return g
}

func take(t testing.TB, s penstock.Store, now penstock.Instant, groups ...storage.Group) *storage.Outcome {
	t.Helper()
	var out storage.Outcome
	if err := s.Take(t.Context(), &storage.Ticket{Now: now, Groups: groups}, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// heat sends requests at one instant until leases decide, and returns how many that took.
func heat(t testing.TB, s *Store, now penstock.Instant, g storage.Group) (calls int) {
	t.Helper()
	for before := s.Stats().Leased; s.Stats().Leased == before; calls++ {
		if calls == 1000 {
			t.Fatal("no permits after 1000 calls at one instant")
		}
		if !take(t, s, now, g).Allowed {
			t.Fatalf("call %d is denied", calls)
		}
	}
	return calls
}

// held returns how much quota the node has.
func (s *Store) held() (n int64) {
	s.eachPool(func(p *pool) { n += p.grants[0].left + p.grants[1].left })
	return n
}

func (s *Store) eachPool(do func(*pool)) {
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		for j := range sh.pools {
			do(&sh.pools[j])
		}
		sh.mu.Unlock()
	}
}

// A register is a store that records what was charged to a subject, or to all subjects, and when.
type register struct {
	penstock.Store
	subject   storage.Subject
	everybody bool

	mu      sync.Mutex
	calls   int
	charged map[penstock.Instant]int64
}

func (r *register) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	err := r.Store.Take(ctx, t, out)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	for i := range t.Groups {
		if g := &t.Groups[i]; err == nil && (r.everybody || g.Subject == r.subject) && out.Groups[i].Taken {
			r.charged[out.Now] += g.Charges[0].Cost
		}
	}
	return err
}

func (r *register) total() (sum int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.charged {
		sum += n
	}
	return sum
}

// A failing store answers nothing while it is down.
type failing struct {
	penstock.Store
	down bool
}

func (f *failing) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if f.down {
		return fmt.Errorf("%w: down", penstock.ErrUnavailable)
	}
	return f.Store.Take(ctx, t, out)
}
