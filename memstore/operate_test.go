package memstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Operations other than tickets name their errors, and do not start once the context has ended.
func TestOperationsRefuse(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour})
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	group := single(1, m, 1).Groups[0]
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(ctx context.Context, isBad bool) error{
		"settle": func(ctx context.Context, isBad bool) error {
			what := &storage.Settlement{Subject: group.Subject, Nonce: 1, Charges: group.Charges}
			if isBad {
				what.Nonce = 0
			}
			return s.Settle(ctx, what, new(storage.SettleOutcome))
		},
		"ban": func(ctx context.Context, isBad bool) error {
			ban := &storage.Ban{Subject: group.Subject, Penalty: penalty, Length: time.Hour}
			if isBad {
				ban.Penalty = nil
			}
			_, err := s.Ban(ctx, ban)
			return err
		},
		"reset": func(ctx context.Context, isBad bool) error {
			g := group
			if isBad {
				g.Charges = []algorithm.Charge{{}}
			}
			return s.Reset(ctx, &g)
		},
		"reservations": func(ctx context.Context, isBad bool) error {
			now := algorithm.Instant(0)
			if isBad {
				now = -1
			}
			_, _, err := s.Reservations(ctx, now, group.Subject, 1)
			return err
		},
		"keys": func(ctx context.Context, isBad bool) error {
			cursor := ""
			if isBad {
				cursor = "?"
			}
			_, _, err := s.Keys(ctx, storage.RuleTag{}, cursor, 1)
			return err
		},
	} {
		if err := do(t.Context(), true); !errors.Is(err, algorithm.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := do(late, false); !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, too late: %v", name, err)
		}
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys", n)
	}
}

// Everything runs concurrently, on few subjects, for the race detector. Whatever is taken is settled or
// still counted.
func TestConcurrentOperations(t *testing.T) {
	s := open(t, Options{MaxBytes: 1 << 20})
	window := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1e6, Window: algorithm.MaxWindow})
	log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10_000, Window: time.Hour})
	leases := limit(t, algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 50, Window: time.Hour})
	charges := []algorithm.Charge{{Meter: window, Cost: 3}, {Meter: log, Cost: 2}, {Meter: leases, Cost: 1}}
	penalty := penaltyOf(t, algorithm.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	const workers, calls, kept = 4, 400, 10
	var group sync.WaitGroup
	for worker := range uint64(workers) {
		group.Go(func() {
			var out storage.Outcome
			var settled storage.SettleOutcome
			for n := range uint64(calls) {
				ticket := &storage.Ticket{Nonce: worker<<32 | n + 1, Groups: []storage.Group{
					{Subject: subject(n % 2), Charges: charges, Reserve: time.Hour, Penalty: penalty},
				}}
				if err := s.Take(t.Context(), ticket, &out); err != nil || !out.Allowed {
					t.Error(out, err)
					return
				}
				if n < kept {
					continue
				}
				what := &storage.Settlement{Subject: subject(n % 2), Nonce: ticket.Nonce, Verb: storage.Release, Charges: charges}
				if err := s.Settle(t.Context(), what, &settled); err != nil || !settled.Allowed || settled.Again {
					t.Error(settled, err)
					return
				}
			}
		})
		group.Go(func() { // on other subjects
			for n := range uint64(calls / 4) {
				who := subject(100 + n)
				_, banErr := s.Ban(t.Context(), &storage.Ban{Subject: who, Penalty: penalty, Length: time.Hour})
				resetErr := s.Reset(t.Context(), &storage.Group{Subject: who, Charges: charges})
				_, _, keysErr := s.Keys(t.Context(), who.Tag(), "", 1000)
				_, _, listErr := s.Reservations(t.Context(), 0, who, 1)
				if err := errors.Join(banErr, resetErr, keysErr, listErr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for n := range uint64(2) {
		ticket := &storage.Ticket{Groups: []storage.Group{{Subject: subject(n), Charges: []algorithm.Charge{{Meter: window}, {Meter: log}, {Meter: leases}}}}}
		out := take(t, s, ticket)
		for i, each := range []int64{3, 2, 1} {
			if want := each * workers * kept / 2; out.Decisions[i].Used != want {
				t.Errorf("subject %d: %d used, want %d", n, out.Decisions[i].Used, want)
			}
		}
		some, total, err := s.Reservations(t.Context(), 0, subject(n), 7)
		if len(some) != 7 || total != workers*calls/2 || err != nil {
			t.Errorf("subject %d: %d of %d reservations, %v", n, len(some), total, err)
		}
	}
}
