package memstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// denyTwice uses up the limit of a subject and has it denied until its shard has a copy of its slot.
func denyTwice(t *testing.T, s *Store, ticket *storage.Ticket) *shard {
	t.Helper()
	if err := s.Close(); err != nil { // otherwise the janitor could drop the copy
		t.Fatal(err)
	}
	for take(t, s, ticket).Allowed {
	}
	take(t, s, ticket)
	sh := s.shardOf(&ticket.Groups[0].Subject)
	if sh.turn.Load()&1 == 0 {
		t.Fatal("the shard has no copy of the slot of a key that was denied twice")
	}
	return sh
}

// A denial that writes nothing needs no lock: it is decided while another goroutine holds it.
func TestDenialsNeedNoLock(t *testing.T) {
	s := open(t, Options{})
	ticket := single(1, limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: 24 * time.Hour}), 1)
	sh := denyTwice(t, s, ticket)
	sh.lock()
	out := take(t, s, ticket)
	sh.mu.Unlock()
	if out.Allowed || out.Decisions[0].Used != 3 || out.Decisions[0].RetryAfter <= 0 {
		t.Errorf("%+v", out.Decisions)
	}
}

// Whatever changes a counter that denies is seen by the next request.
func TestChangesEndDenials(t *testing.T) {
	l := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Window: 10 * time.Hour}
	m := limit(t, l)
	l.Count = 20
	larger := limit(t, l)
	for name, c := range map[string]struct {
		change func(s *Store, ticket *storage.Ticket) error
		used   int64 // after one more request
	}{
		"reset": {func(s *Store, ticket *storage.Ticket) error { return s.Reset(t.Context(), &ticket.Groups[0]) }, 1},
		"time":  {func(*Store, *storage.Ticket) error { time.Sleep(2 * time.Hour); return nil }, 9},
		"a settlement": {func(s *Store, ticket *storage.Ticket) error {
			return s.Settle(t.Context(), &storage.Settlement{
				Subject: ticket.Groups[0].Subject, Nonce: 7, Verb: storage.Release, Charges: ticket.Groups[0].Charges,
			}, new(storage.SettleOutcome))
		}, 7},
		"a larger limit": {func(_ *Store, ticket *storage.Ticket) error {
			ticket.Groups[0].Charges[0].Meter = larger
			return nil
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, Options{})
				reserved := single(1, m, 4)
				reserved.Nonce, reserved.Groups[0].Reserve = 7, time.Hour
				take(t, s, reserved)
				ticket := single(1, m, 1)
				denyTwice(t, s, ticket)
				if err := c.change(s, ticket); err != nil {
					t.Fatal(err)
				}
				if out := take(t, s, ticket); !out.Allowed || out.Decisions[0].Used != c.used {
					t.Errorf("%+v, want %d used", out.Decisions, c.used)
				}
			})
		})
	}
}

// While a counter is reset again and again, denials without the lock never hide a reset: the goroutine that
// resets is allowed what the limit allows, and no more.
func TestDenialsBesideResets(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: 300 * 24 * time.Hour})
	ticket := single(1, m, 1)
	var stop atomic.Bool
	var passed atomic.Int64
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			own, out := *ticket, storage.Outcome{}
			for !stop.Load() {
				if err := s.Take(t.Context(), &own, &out); err != nil {
					t.Error(err)
					return
				}
				if out.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	const rounds = 2000
	var out storage.Outcome
	for range rounds {
		for { // until the limit is used up
			if err := s.Take(t.Context(), ticket, &out); err != nil {
				t.Fatal(err)
			}
			if !out.Allowed {
				break
			}
			passed.Add(1)
		}
		if out.Decisions[0].Used != 3 {
			t.Fatalf("denied with %d used", out.Decisions[0].Used)
		}
		if err := s.Reset(t.Context(), &ticket.Groups[0]); err != nil {
			t.Fatal(err)
		}
	}
	for take(t, s, ticket).Allowed {
		passed.Add(1)
	}
	stop.Store(true)
	others.Wait()
	if got, want := passed.Load(), int64(3*(rounds+1)); got != want {
		t.Errorf("%d requests passed, want %d", got, want)
	}
}
