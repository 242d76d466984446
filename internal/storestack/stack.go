package storestack

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// Options say where counters are.
type Options struct {
	Memory memstore.Options
	Redis  *redisstore.Options // nil: counters are in memory

	Observer breaker.Observer // of what is sent to Redis; may be nil

	Log *slog.Logger
}

// A Stack is the stores put together. Without Redis only Shared and Memory are set, to the same store.
type Stack struct {
	Shared penstock.Store // what the engine asks
	Local  penstock.Store // what decides while Shared is unavailable

	Memory  *memstore.Store
	Redis   *redisstore.Store
	Breaker *breaker.Breaker // around Redis
	Leases  *lease.Store     // around the breaker
	Denied  *denycache.Cache // around the leases

	Settled chan struct{} // closed when Redis has answered, or was given up on

	waited  *time.Timer
	problem atomic.Pointer[error] // of the last probe of Redis
}

// patience is how long the start waits for Redis. Decisions do not: the rules' on_store_error decides
// meanwhile.
const patience = time.Second

// watchInterval is between two probes of a Redis that serves: an idle node notices within seconds that
// it has failed.
const watchInterval = time.Second

// Open returns at once, also if Redis cannot be reached: it is probed until it can.
func Open(o Options) (_ *Stack, err error) {
	s := &Stack{Settled: make(chan struct{})}
	if o.Redis != nil {
		if s.Redis, err = redisstore.New(*o.Redis); err != nil {
			return nil, err
		}
	}
	if s.Memory, err = memstore.New(o.Memory); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.Redis == nil {
		s.Shared = s.Memory
		close(s.Settled)
		return s, nil
	}
	s.Local = s.Memory
	if err := s.openBreaker(&o); err != nil {
		return nil, err
	}
	if s.Leases, err = lease.New(s.Breaker, lease.Options{}); err != nil {
		return nil, err
	}
	if s.Denied, err = denycache.New(s.Leases, denycache.Options{}); err != nil {
		return nil, err
	}
	s.Shared = s.Denied
	return s, nil
}

// openBreaker starts to probe Redis.
func (s *Stack) openBreaker(o *Options) (err error) {
	s.problem.Store(&errNotProbed)
	settle := sync.OnceFunc(func() { close(s.Settled) })
	s.waited = time.AfterFunc(patience, func() {
		if err := s.Problem(); err != nil {
			o.Log.Error("Redis cannot be reached: rules decide by their on_store_error until it can", "error", err)
		}
		settle()
	})
	s.Breaker, err = breaker.New(breaker.Options{
		Store: s.Redis, Probe: s.probe, Judge: o.judge, Down: errNotProbed,
		Observer: o.Observer, Watch: watchInterval,
		Zones: o.Redis.Mode.Zones(), ZoneOf: o.Redis.Mode.ZoneOf,
		OnChange: func(now breaker.State, cause error) {
			switch {
			case now == breaker.Closed:
				o.Log.Info("Redis decides", "addresses", o.Redis.Addresses)
				s.waited.Stop()
				settle()
			case !errors.Is(cause, errNotProbed):
				o.Log.Error("Redis has failed: rules decide by their on_store_error until it serves again",
					"kind", redisstore.KindOf(cause), "error", cause)
			}
		},
	})
	return err
}

var errNotProbed = errors.New("redis: there was no connection yet")

// probe connects to Redis if nobody has, and tells whether it decides in a zone.
func (s *Stack) probe(ctx context.Context, zone int) error {
	err := s.Redis.PingZone(ctx, zone)
	s.problem.Store(&err)
	return err
}

// judge says how bad an error of Redis is, for everybody.
func (o *Options) judge(err error) breaker.Severity {
	if redisstore.KindOf(err).Down(o.Redis.Mode) {
		return breaker.Down
	}
	return breaker.Failure
}

// Problem is why the last probe of Redis failed; nil if it did not.
func (s *Stack) Problem() error {
	if err := s.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends the probes and the connections.
func (s *Stack) Close() {
	if s.waited != nil {
		s.waited.Stop()
	}
	if s.Breaker != nil {
		s.Breaker.Close()
	}
	if s.Redis != nil {
		_ = s.Redis.Close() // neither fails
	}
	_ = s.Memory.Close()
}
