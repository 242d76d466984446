package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/redisstore"
)

// connecting is how long a connection may take: more than a decision, which waits for none.
const connecting = time.Second

// lateRedis is a store in Redis that need not be there yet: it is connected to when it can be, and
// until then has no answer.
type lateRedis struct {
	timeout time.Duration // of a decision

	current atomic.Pointer[redisstore.Store]
	problem atomic.Pointer[error] // why there is none
	opened  chan struct{}

	closing context.Context
	close   context.CancelFunc
	ended   sync.WaitGroup
}

var errNotTried = errors.New("it was not tried yet")

func openLate(o redisstore.Options, timeout time.Duration, log *slog.Logger) *lateRedis {
	r := &lateRedis{timeout: timeout, opened: make(chan struct{})}
	r.problem.Store(&errNotTried)
	r.closing, r.close = context.WithCancel(context.Background())
	r.ended.Go(func() { r.connect(o, log) })
	return r
}

// connect tries until it succeeds. Once there was a connection, the client sees to the next.
func (r *lateRedis) connect(o redisstore.Options, log *slog.Logger) {
	const least, most = 100 * time.Millisecond, 5 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		store, err := redisstore.Open(o)
		if err == nil {
			r.current.Store(store)
			close(r.opened)
			log.Info("connected to Redis", "addresses", o.Addresses)
			return
		}
		if r.problem.Swap(&err); wait == least {
			log.Error("Redis cannot be reached: rules decide by their on_store_error until it can", "error", err)
		}
		select {
		case <-r.closing.Done():
			return
		case <-time.After(wait):
		}
	}
}

// store returns the store, or why there is none.
func (r *lateRedis) store() (*redisstore.Store, error) {
	if s := r.current.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("redis: not connected: %w: %w", penstock.ErrUnavailable, *r.problem.Load())
}

// Take decides within the time that a decision has.
func (r *lateRedis) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return s.Take(ctx, t, out)
}

func (r *lateRedis) Settle(ctx context.Context, what *penstock.Settlement, out *penstock.Settled) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Settle(ctx, what, out)
}

// Close ends the trying and the connections.
func (r *lateRedis) Close() {
	r.close()
	r.ended.Wait()
	if s := r.current.Load(); s != nil {
		s.Close()
	}
}
