package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// Options of a Store.
type Options struct {
	// Pools is roughly how many keys can have leases at the same time; 0 is DefaultPools. Each takes 384
	// bytes. If there are more hot keys, the least recently used ones lose theirs.
	Pools int
}

const (
	DefaultPools = 1 << 14
	MinPools     = shards * ways
	MaxPools     = 1 << 22
)

// A Store decides from leases if it has them, and asks the wrapped store for everything else. It is safe for
// concurrent use.
type Store struct {
	inner // handles everything else: nothing that is reserved or can be banned is leased
	table table
	began time.Time
	works sync.Pool // of *work
	calls atomic.Int64
	exact atomic.Int64

	returned, kept atomic.Int64 // of what was to be returned
}

// Stats count what a store has done since it was created. Permits = spent + Expired + Returned + those still
// held.
type Stats struct {
	Leased     int64 // groups decided from a lease
	Exact      int64 // groups marked Leased that the store decided
	StoreCalls int64 // for tickets with such groups
	Permits    int64 // leased, in units of cost
	Expired    int64 // of them, not spent in time
	Returned   int64 // of them, given back
}

type inner = storage.FullStore

// New returns a store around another.
func New(store storage.FullStore, o Options) (*Store, error) {
	if store == nil {
		return nil, fmt.Errorf("%w lease: no store to take leases from", penstock.ErrInvalid)
	}
	if o.Pools == 0 {
		o.Pools = DefaultPools
	}
	if o.Pools < MinPools || o.Pools > MaxPools {
		return nil, fmt.Errorf("%w lease: Pools must be from %d to %d, got %d", penstock.ErrInvalid, MinPools, MaxPools, o.Pools)
	}
	s := &Store{inner: store, began: time.Now()}
	s.table.sets = uint64(o.Pools / MinPools)
	s.works.New = func() any { return new(workspace) }
	return s, nil
}

// Stats returns the counters; while requests are running they may not add up.
func (s *Store) Stats() Stats {
	st := s.table.stats()
	st.StoreCalls, st.Exact = s.calls.Load(), s.exact.Load()
	st.Returned = s.returned.Load()
	st.Expired += s.kept.Load()
	return st
}

// Take decides a ticket. If the store fails, so does the ticket, unless leases cover all of it.
func (s *Store) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if t.Denied || !isMarked(t) {
		return s.inner.Take(ctx, t, out)
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("take of leased permits: %w: %w", penstock.ErrUnavailable, err)
	}
	w := s.works.Get().(*workspace)
	defer s.works.Put(w)
	w.plan(s, t)
	switch {
	case w.asked == 0 && w.fetches == 0:
		w.answer(t, out)
		return nil
	case w.asked == len(t.Groups) && w.fetches == 0:
		return s.takeAll(ctx, t, out, w)
	}
	return s.takeRest(ctx, t, out, w)
}

// Reset also drops this node's quota, even if it is still on its way: it was charged to the state that is now
// cleared.
func (s *Store) Reset(ctx context.Context, g *storage.Group) error {
	err := s.inner.Reset(ctx, g)
	s.table.forget(&g.Subject) // even with an error, because it may have taken effect
	return err
}

func isMarked(t *storage.Ticket) bool {
	for i := range t.Groups {
		if t.Groups[i].Leased {
			return true
		}
	}
	return false
}

// takeAll lets the store decide the unchanged ticket.
func (s *Store) takeAll(ctx context.Context, t *storage.Ticket, out *storage.Outcome, w *workspace) error {
	s.count(t, w)
	out.States = out.States[:0] // left from another ticket: not every store fills them in
	err := s.inner.Take(ctx, t, out)
	if err == nil && len(out.States) == len(out.Decisions) {
		w.learn(t, out, s.instant(t.Now))
	}
	return err
}

// takeRest lets the store decide what leases do not cover, and takes leases with the same ticket.
func (s *Store) takeRest(ctx context.Context, t *storage.Ticket, out *storage.Outcome, w *workspace) error {
	s.count(t, w)
	w.write(t)
	w.outcome.States = w.outcome.States[:0]
	err := s.inner.Take(ctx, &w.ticket, &w.outcome)
	switch {
	case err == nil:
		w.receive(t, s.instant(t.Now))
	case w.asked > 0:
		w.fail()
		w.giveBack(t, true)
		return err
	default:
		w.fail()
		w.outcome.Allowed = true // only a lease was asked for: the request has its quota
	}
	if !w.outcome.Allowed {
		w.giveBack(t, false)
	}
	w.answer(t, out)
	return nil
}

func (s *Store) count(t *storage.Ticket, w *workspace) {
	s.calls.Add(1)
	for i := range w.parts {
		if t.Groups[i].Leased && !w.parts[i].covered() {
			s.exact.Add(1)
		}
	}
}

// instant returns the instant of a ticket. Without one, it is that of a monotonic clock of this node: only
// how long ago something was sent matters.
func (s *Store) instant(given penstock.Instant) penstock.Instant {
	if given != 0 {
		return given
	}
	return penstock.Instant(time.Since(s.began).Microseconds())
}
