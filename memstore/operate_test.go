package memstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// What is asked beside tickets names its mistakes, and is not begun once the context has ended.
func TestOperationsRefuse(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	m := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: time.Hour})
	penalty := penaltyOf(t, penstock.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	group := single(1, m, 1).Groups[0]
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(ctx context.Context, isBad bool) error{
		"settle": func(ctx context.Context, isBad bool) error {
			what := &penstock.Settlement{Subject: group.Subject, Nonce: 1, Charges: group.Charges}
			if isBad {
				what.Nonce = 0
			}
			return s.Settle(ctx, what, new(penstock.Settled))
		},
		"ban": func(ctx context.Context, isBad bool) error {
			ban := &penstock.Ban{Subject: group.Subject, Penalty: penalty, Length: time.Hour}
			if isBad {
				ban.Penalty = nil
			}
			_, err := s.Ban(ctx, ban)
			return err
		},
		"reset": func(ctx context.Context, isBad bool) error {
			g := group
			if isBad {
				g.Charges = []penstock.Charge{{}}
			}
			return s.Reset(ctx, &g)
		},
		"reservations": func(ctx context.Context, isBad bool) error {
			now := penstock.Instant(0)
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
			_, _, err := s.Keys(ctx, penstock.RuleTag{}, cursor, 1)
			return err
		},
	} {
		if err := do(t.Context(), true); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if err := do(late, false); !errors.Is(err, penstock.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, too late: %v", name, err)
		}
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys", n)
	}
}

// Everything at once, over few subjects, for the race detector; and what is taken is settled or
// still counted.
func TestConcurrentOperations(t *testing.T) {
	s := open(t, Options{MaxBytes: 1 << 20})
	window := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1e6, Window: penstock.MaxWindow})
	log := limit(t, penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 10_000, Window: time.Hour})
	leases := limit(t, penstock.Limit{Algorithm: penstock.Concurrency, Count: 50, Window: time.Hour})
	charges := []penstock.Charge{{Meter: window, Cost: 3}, {Meter: log, Cost: 2}, {Meter: leases, Cost: 1}}
	penalty := penaltyOf(t, penstock.PenaltyTerms{After: 1, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour})
	const workers, calls, kept = 4, 400, 10
	var group sync.WaitGroup
	for worker := range uint64(workers) {
		group.Go(func() {
			var out penstock.Outcome
			var settled penstock.Settled
			for n := range uint64(calls) {
				ticket := &penstock.Ticket{Nonce: worker<<32 | n + 1, Groups: []penstock.Group{
					{Subject: subject(n % 2), Charges: charges, Reserve: time.Hour, Penalty: penalty},
				}}
				if err := s.Take(t.Context(), ticket, &out); err != nil || !out.Allowed {
					t.Error(out, err)
					return
				}
				if n < kept {
					continue
				}
				what := &penstock.Settlement{Subject: subject(n % 2), Nonce: ticket.Nonce, Verb: penstock.Release, Charges: charges}
				if err := s.Settle(t.Context(), what, &settled); err != nil || !settled.Allowed || settled.Again {
					t.Error(settled, err)
					return
				}
			}
		})
		group.Go(func() { // to strangers
			for n := range uint64(calls / 4) {
				who := subject(100 + n)
				_, banErr := s.Ban(t.Context(), &penstock.Ban{Subject: who, Penalty: penalty, Length: time.Hour})
				resetErr := s.Reset(t.Context(), &penstock.Group{Subject: who, Charges: charges})
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
		ticket := &penstock.Ticket{Groups: []penstock.Group{{Subject: subject(n), Charges: []penstock.Charge{{Meter: window}, {Meter: log}, {Meter: leases}}}}}
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
