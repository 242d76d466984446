package denycache_test

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// invalidatingStore is a store that makes the cache in front of it forget each changed subject, before the change is
// visible to others.
type invalidatingStore struct {
	storetest.CompleteStore
	cache *denycache.Cache
	desks [256]subjectWorker
}

// A subjectWorker handles some subjects one after the other.
type subjectWorker struct {
	mu     sync.Mutex
	latest map[storage.Subject]penstock.Instant // that a ticket has named
}

func (s *invalidatingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	var subjects []storage.Subject
	for i := range t.Groups {
		subjects = append(subjects, t.Groups[i].Subject)
	}
	defer s.occupy(subjects...)()
	err := s.CompleteStore.Take(ctx, t, out)
	for i := range t.Groups {
		g := &t.Groups[i]
		if s.desk(g.Subject).steppedBack(t, g) || err != nil || changed(g, &out.Groups[i]) {
			s.cache.Forget(g.Subject)
		}
	}
	return err
}

func (s *invalidatingStore) desk(subject storage.Subject) *subjectWorker {
	return &s.desks[subject[15]]
}

// occupy locks some subjects until it is undone.
func (s *invalidatingStore) occupy(subjects ...storage.Subject) (leave func()) {
	var numbers []int
	for _, subject := range subjects {
		numbers = append(numbers, int(subject[15]))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, n := range numbers {
		s.desks[n].mu.Lock()
	}
	return func() {
		for _, n := range numbers {
			s.desks[n].mu.Unlock()
		}
	}
}

// steppedBack reports whether state may have been re-dated, or reported as if it had been.
func (d *subjectWorker) steppedBack(t *storage.Ticket, g *storage.Group) bool {
	if d.latest == nil {
		d.latest = map[storage.Subject]penstock.Instant{}
	}
	latest := d.latest[g.Subject]
	d.latest[g.Subject] = max(latest, t.Now)
	return t.Now < latest
}

func changed(g *storage.Group, out *storage.GroupOutcome) bool {
	if out.Taken || out.Strikes > 0 {
		return true
	}
	return slices.ContainsFunc(g.Charges, func(c algorithm.Charge) bool { return c.Meter.CountDenied })
}

func (s *invalidatingStore) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	defer s.occupy(what.Subject)()
	defer s.cache.Forget(what.Subject)
	return s.CompleteStore.Settle(ctx, what, out)
}

func (s *invalidatingStore) Ban(ctx context.Context, b *storage.Ban) (penstock.Instant, error) {
	defer s.occupy(b.Subject)()
	defer s.cache.Forget(b.Subject)
	return s.CompleteStore.Ban(ctx, b)
}

func (s *invalidatingStore) Reset(ctx context.Context, g *storage.Group) error {
	defer s.occupy(g.Subject)()
	defer s.cache.Forget(g.Subject)
	return s.CompleteStore.Reset(ctx, g)
}
