package storestack

import (
	"cmp"
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

// Options configure where counters live.
type Options struct {
	Memory memstore.Options
	Redis  *redisstore.Options // nil: counters are in memory

	Observer breaker.Observer // of what is sent to Redis; may be nil

	// Changed is called when the circuit breaker closes or opens, and why it opened; may be nil.
	Changed func(now breaker.State, cause error)

	Watch time.Duration // between two probes of a working Redis; default 1 s

	Log *slog.Logger
}

// A Stack is the assembled stores. Without Redis only Shared and Memory are set, to the same store.
type Stack struct {
	Shared penstock.Store // the store that the engine asks
	Local  penstock.Store // the store that decides while Shared is unavailable

	Memory  *memstore.Store
	Redis   *redisstore.Store
	Breaker *breaker.Breaker // around Redis
	Leases  *lease.Store     // around the breaker
	Denied  *denycache.Cache // around the leases

	Settled chan struct{} // closed when Redis has answered, or the start no longer waits for it

	waited  *time.Timer
	probed  chan struct{}         // closed when Redis has been probed once
	first   sync.Once             // closes it
	problem atomic.Pointer[error] // of the last probe of Redis

	log    *slog.Logger
	losses losses
	memory memoryWatch
}

// patience is how long the start waits for a Redis that does not answer: a node that decided without it at once would
// admit what other nodes have already counted. A first probe that is under way then is waited for.
const patience = time.Second

// watchInterval is the default of Options.Watch, so that an idle node notices a failure within seconds.
const watchInterval = time.Second

// Open returns at once, even if Redis cannot be reached: it is then probed until it can.
func Open(o Options) (_ *Stack, err error) {
	s := &Stack{Settled: make(chan struct{}), probed: make(chan struct{}), log: o.Log}
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
	s.watchMemory()
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

// openBreaker starts probing Redis.
func (s *Stack) openBreaker(o *Options) (err error) {
	s.problem.Store(&errNotProbed)
	settle := sync.OnceFunc(func() { close(s.Settled) })
	s.waited = time.AfterFunc(patience, func() {
		<-s.probed
		if err := s.Problem(); err != nil {
			o.Log.Error("cannot connect to Redis, rules use on_store_error until it is available", "error", err)
		}
		settle()
	})
	s.Breaker, err = breaker.New(breaker.Options{
		Store: s.Redis, Probe: s.probe, Judge: o.severity, Down: errNotProbed,
		Observer: o.Observer, Watch: cmp.Or(o.Watch, watchInterval), Patience: max(time.Second, o.Redis.Timeout),
		Zones: o.Redis.Mode.Zones(), ZoneOf: o.Redis.Mode.ZoneOf,
		OnChange: func(now breaker.State, cause error) {
			if o.Changed != nil && !errors.Is(cause, errNotProbed) {
				o.Changed(now, cause)
			}
			switch {
			case now == breaker.Closed:
				o.Log.Info("Redis connected", "addresses", o.Redis.Addresses)
				s.waited.Stop()
				settle()
			case !errors.Is(cause, errNotProbed):
				o.Log.Error("Redis has failed, rules use on_store_error until it recovers",
					"kind", redisstore.KindOf(cause), "error", cause)
			}
		},
	})
	return err
}

var errNotProbed = errors.New("redis: there was no connection yet")

// probe connects to Redis if there is no connection yet, and reports whether a zone decides.
func (s *Stack) probe(ctx context.Context, zone int) error {
	defer s.first.Do(func() { close(s.probed) })
	err := s.Redis.PingZone(ctx, zone)
	s.problem.Store(&err)
	return err
}

// severity returns how severe an error of Redis is.
func (o *Options) severity(err error) breaker.Severity {
	if redisstore.KindOf(err).Down(o.Redis.Mode) {
		return breaker.Down
	}
	return breaker.Failure
}

// Problem returns why the last probe of Redis failed; nil if it succeeded.
func (s *Stack) Problem() error {
	if err := s.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// Close stops the probes and closes the connections.
func (s *Stack) Close() {
	if s.memory.stop != nil {
		close(s.memory.stop)
		<-s.memory.stopped
		s.memory.stop = nil
	}
	if s.waited != nil {
		s.waited.Stop()
	}
	if s.Breaker != nil {
		s.Breaker.Close()
	}
	s.first.Do(func() { close(s.probed) })
	if s.Redis != nil {
		_ = s.Redis.Close() // neither returns an error
	}
	_ = s.Memory.Close()
}
