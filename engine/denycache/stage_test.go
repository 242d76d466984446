package denycache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A build wraps a store with something that answers denials.
type build func(store storetest.CompleteStore) storetest.CompleteStore

// A testNode is a node in front of a store that counts how often it is asked. Its methods record failures.
type testNode struct {
	store *countingStore
	node  storetest.CompleteStore
	errs  []error
}

func newStage(b build) *testNode {
	store := &countingStore{CompleteStore: storetest.NewModel()}
	return &testNode{store: store, node: b(store)}
}

// countingStore is a store that counts the tickets it is asked about.
type countingStore struct {
	storetest.CompleteStore
	asked atomic.Int64
}

func (s *countingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	s.asked.Add(1)
	return s.CompleteStore.Take(ctx, t, out)
}

func (s *testNode) failf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *testNode) check(err error) {
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

// take asks the node at an instant. The nonce is the instant too.
func (s *testNode) take(at penstock.Instant, groups ...storage.Group) storage.Outcome {
	return s.takeFrom(s.node, at, groups...)
}

func (s *testNode) takeFrom(store penstock.Store, at penstock.Instant, groups ...storage.Group) (out storage.Outcome) {
	t := storage.Ticket{Now: at, Nonce: uint64(at), Groups: groups}
	s.check(store.Take(context.Background(), &t, &out))
	return out
}

func (s *testNode) passes(at penstock.Instant, groups ...storage.Group) {
	if out := s.take(at, groups...); !out.Allowed {
		s.failf("denied %v after the start: %+v", at.Sub(start), out)
	}
}

func (s *testNode) denies(at penstock.Instant, groups ...storage.Group) {
	if out := s.take(at, groups...); out.Allowed {
		s.failf("allowed %v after the start: %+v", at.Sub(start), out)
	}
}

// asks checks how many tickets reach the store while something is done.
func (s *testNode) asks(want int64, do func()) {
	before := s.store.asked.Load()
	do()
	if got := s.store.asked.Load() - before; got != want {
		s.failf("the store was asked about %d tickets, want %d", got, want)
	}
}

// compare checks that node and store give the same answer to a denied request, so that asking changes
// nothing.
func (s *testNode) compare(at penstock.Instant, groups ...storage.Group) {
	before := s.store.asked.Load()
	got := s.take(at, groups...)
	if asked := s.store.asked.Load() > before; got.Cached == asked {
		s.failf("%v after the start the answer is cached: %v, and the store was asked: %v", at.Sub(start), got.Cached, asked)
	}
	got.Cached = false
	want := s.takeFrom(s.store.CompleteStore, at, groups...)
	if got, want := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); got != want {
		s.failf("%v after the start the node says\n%s\nand the store\n%s", at.Sub(start), got, want)
	}
}

func (s *testNode) verdict() error { return errors.Join(s.errs...) }

const (
	second = penstock.Instant(1_000_000)
	start  = 1_700_000_000 * second / 3600 / second * 3600 * second // the beginning of an hour
)

var somebody = storage.NewHasher("denycache").Subject("default", "rule", penstock.Attribute{Name: "user", Value: "u1"})

func hourly(count int64) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.FixedWindow, Count: count, Window: time.Hour}
}

// group is what a rule of one limit asks for a client.
func group(l penstock.Limit, cost int64) storage.Group {
	return storage.Group{Subject: somebody, Charges: []algorithm.Charge{{Meter: l.MustCompile(), Cost: cost}}}
}
