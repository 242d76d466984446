package memstore

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Ban sets or lifts a ban and returns its end.
func (s *Store) Ban(ctx context.Context, b *storage.Ban) (until algorithm.Instant, err error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, ended("ban", err)
	}
	t := &storage.Ticket{Now: b.Now, Groups: []storage.Group{{Subject: b.Subject, Penalty: b.Penalty}}}
	k, number := keyOf(&b.Subject, algorithm.PenaltyFingerprint, s.seed)
	p := slotRef{key: k, sh: &s.shards[number>>s.shift]}
	p.sh.lock()
	defer p.sh.unlock()
	now := s.instant(t)
	st := b.Apply(p.findSlot().penalty(), now)
	if p.missing {
		if p.sh.makeRoom(1, &roomRequest{ticket: t, seed: s.seed, now: now}) != nil {
			return 0, fmt.Errorf("ban in memory: %w", p.sh.refuse())
		}
	}
	p.setPenalty(st, b.Penalty.Forgive, b.Length != 0, b.Now != 0)
	if b.Length != 0 {
		until = st.At
	}
	return until, nil
}

// Reset forgets a subject.
func (s *Store) Reset(ctx context.Context, g *storage.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return ended("reset", err)
	}
	sh := s.shardOf(&g.Subject)
	sh.lock()
	defer sh.unlock()
	forget := func(fingerprint uint64) {
		k, _ := keyOf(&g.Subject, fingerprint, s.seed)
		sh.forget(k)
	}
	for _, c := range g.Charges {
		forget(c.Meter.Fingerprint)
	}
	forget(algorithm.PenaltyFingerprint)
	if g.Dedup != nil {
		forget(g.Dedup.Budget.Fingerprint)
	}
	s.visitReservations(&g.Subject, func(*shard, *slot) bool { return true })
	return nil
}

// Reservations returns a subject's reservations, ordered by nonce. It scans those of all subjects.
func (s *Store) Reservations(ctx context.Context, now algorithm.Instant, subject storage.Subject, most int) (some []storage.Reservation, total int64, err error) {
	if err := storage.ValidateInspection(now, most); err != nil {
		return nil, 0, err
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, ended("list reservations", err)
	}
	if now == 0 {
		now = s.clock.now()
	}
	sh := s.shardOf(&subject)
	sh.lock()
	defer sh.unlock()
	live := s.reservations(&subject, now)
	return live[:min(most, len(live))], int64(len(live)), nil
}

func (s *Store) shardOf(subject *storage.Subject) *shard {
	_, number := keyOf(subject, 0, s.seed)
	return &s.shards[number>>s.shift]
}
