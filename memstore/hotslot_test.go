package memstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const endless = 300 * 24 * time.Hour

// heat charges a subject until its slot is hot.
func heat(t *testing.T, s *Store, ticket *storage.Ticket) *shard {
	t.Helper()
	if err := s.Close(); err != nil { // otherwise the janitor could put the slot back
		t.Fatal(err)
	}
	for range 3 {
		take(t, s, ticket)
	}
	sh := s.shardOf(&ticket.Groups[0].Subject)
	k, _ := s.locate(&ticket.Groups[0].Subject, ticket.Groups[0].Charges[0].Meter)
	if sh.hot.head == 0 || sh.hot.key != k || sh.hotPlace.Load() != k.place {
		t.Fatal("the slot of a key that was charged three times in a row is not hot")
	}
	if *sh.hot.home == sh.hot.slot {
		t.Fatal("the hot slot is written to the table at once")
	}
	return sh
}

// What takes the lock finds the hot slot in the table, and the next charge finds what was written there.
func TestHotSlotIsPutBack(t *testing.T) {
	m := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 100, Window: endless})
	other := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: endless})
	ticket := single(1, m, 1)
	two := single(1, m, 1)
	two.Groups[0].Charges = append(two.Groups[0].Charges, algorithm.Charge{Meter: other, Cost: 1})
	for name, c := range map[string]struct {
		act  func(s *Store, sh *shard)
		used int64 // after one more request
	}{
		"a ticket with two limits": {func(s *Store, _ *shard) { take(t, s, two) }, 5},
		"a reset": {func(s *Store, _ *shard) {
			if err := s.Reset(t.Context(), &ticket.Groups[0]); err != nil {
				t.Fatal(err)
			}
		}, 1},
		"another shard's need for room": {func(_ *Store, sh *shard) {
			if !sh.tryLock() {
				t.Fatal("the lock of an idle shard is taken")
			}
			sh.rebuild(sh.rows()+1, func(*slot) bool { return false })
			sh.unlock()
		}, 4},
		"new keys": {func(s *Store, _ *shard) {
			for n := range uint64(50) {
				take(t, s, single(100+n, m, 1))
			}
		}, 4},
		"another hot key": {func(s *Store, _ *shard) {
			for range 3 {
				take(t, s, single(2, m, 1))
			}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{MaxBytes: MinBytes}) // one shard
			take(t, s, single(2, m, 1))
			sh := heat(t, s, ticket)
			c.act(s, sh)
			if out := take(t, s, ticket); out.Decisions[0].Used != c.used {
				t.Errorf("%d used, want %d", out.Decisions[0].Used, c.used)
			}
			sh.lock()
			defer sh.unlock()
			sh.check(t)
		})
	}
}

// Goroutines that charge one key share it exactly, while others add keys to its shard and charge it with tickets of two
// limits.
func TestHotKeyBesideOthers(t *testing.T) {
	s := open(t, Options{MaxBytes: MinBytes})
	const count = 20_000
	m := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: count, Window: endless})
	other := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: algorithm.MaxCount, Window: endless})
	var passed, finished atomic.Int64
	var all sync.WaitGroup
	charge := func(own *storage.Ticket) {
		defer finished.Add(1)
		for out := new(storage.Outcome); ; passed.Add(1) {
			if err := s.Take(t.Context(), own, out); err != nil {
				t.Error(err)
				return
			}
			if !out.Allowed {
				return
			}
		}
	}
	for range 3 {
		all.Go(func() { charge(single(1, m, 1)) })
	}
	all.Go(func() {
		two := single(1, m, 1)
		two.Groups[0].Charges = append(two.Groups[0].Charges, algorithm.Charge{Meter: other, Cost: 1})
		charge(two)
	})
	all.Go(func() {
		out := new(storage.Outcome)
		for n := uint64(2); finished.Load() == 0; n++ {
			if err := s.Take(t.Context(), single(n%200+2, m, 1), out); err != nil {
				t.Error(err)
				return
			}
		}
	})
	all.Wait()
	if got := passed.Load(); got != count {
		t.Errorf("%d requests passed, want %d", got, count)
	}
}
