package storestack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Redis is a store in Redis that need not be there yet: until a probe succeeds, it is unavailable. After
// the first connection, the client sees to the next.
type Redis struct {
	options redisstore.Options
	current atomic.Pointer[redisstore.Store]
	problem atomic.Pointer[error] // of the last probe

	connecting singleflight.Group
}

var _ breaker.Store = (*Redis)(nil)

var errNotTried = errors.New("redis: there was no connection yet")

func newRedis(o redisstore.Options) *Redis {
	r := &Redis{options: o}
	r.problem.Store(&errNotTried)
	return r
}

// Probe connects if nobody has, and tells whether Redis decides in a zone.
func (r *Redis) Probe(ctx context.Context, zone int) (err error) {
	defer func() { r.problem.Store(&err) }()
	s, err := r.connect()
	if err != nil {
		return err
	}
	return s.PingZone(ctx, zone)
}

// connect makes the store, once. All who want it meanwhile share the attempt.
func (r *Redis) connect() (*redisstore.Store, error) {
	_, err, _ := r.connecting.Do("", func() (any, error) {
		if r.current.Load() != nil {
			return nil, nil
		}
		s, err := redisstore.Open(r.options)
		if err == nil {
			r.current.Store(s)
		}
		return nil, err
	})
	return r.current.Load(), err
}

// judge says how bad an error of this store is, for everybody.
func (r *Redis) judge(err error) breaker.Severity {
	if redisstore.KindOf(err).Down(r.options.Mode) {
		return breaker.Down
	}
	return breaker.Failure
}

// Problem is why the last probe failed; nil if it did not.
func (r *Redis) Problem() error { return *r.problem.Load() }

// store returns the store, or why there is none.
func (r *Redis) store() (*redisstore.Store, error) {
	if s := r.current.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("redis: not connected: %w: %w", storage.ErrNotTaken, *r.problem.Load())
}

// Close ends the connections. No probe may be under way.
func (r *Redis) Close() {
	if s := r.current.Load(); s != nil {
		s.Close()
	}
}

// Stats are the store's.
func (r *Redis) Stats() (none redisstore.Stats) {
	if s := r.current.Load(); s != nil {
		return s.Stats()
	}
	return none
}

// Beat and Leave are the store's, for internal/membership.
func (r *Redis) Beat(ctx context.Context, node, about string) (nodes int, peers []membership.Peer, err error) {
	s, err := r.store()
	if err != nil {
		return 0, nil, err
	}
	nodes, alive, err := s.Beat(ctx, node, about, membership.Believed)
	for _, p := range alive {
		peers = append(peers, membership.Peer{ID: p.Name, About: p.About, Ago: p.Ago})
	}
	return nodes, peers, err
}

func (r *Redis) Leave(ctx context.Context, node string) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Leave(ctx, node)
}

// Clearings are the store's.
func (r *Redis) Clearings(ctx context.Context) ([]redisstore.Clearing, error) {
	s, err := r.store()
	if err != nil {
		return nil, err
	}
	return s.Clearings(ctx)
}

func (r *Redis) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Take(ctx, t, out)
}

func (r *Redis) Settle(ctx context.Context, what *storage.Settlement, out *storage.Settled) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Settle(ctx, what, out)
}

func (r *Redis) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.ChargeLate(ctx, c)
}

func (r *Redis) Ban(ctx context.Context, b *storage.Ban) (until penstock.Instant, err error) {
	s, err := r.store()
	if err != nil {
		return 0, err
	}
	return s.Ban(ctx, b)
}

func (r *Redis) Reset(ctx context.Context, g *storage.Group) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Reset(ctx, g)
}

func (r *Redis) Reservations(ctx context.Context, now penstock.Instant, who storage.Subject, most int) ([]storage.Reservation, int64, error) {
	s, err := r.store()
	if err != nil {
		return nil, 0, err
	}
	return s.Reservations(ctx, now, who, most)
}

func (r *Redis) Keys(ctx context.Context, tag storage.RuleTag, cursor string, about int) (page []string, next string, err error) {
	s, err := r.store()
	if err != nil {
		return nil, "", err
	}
	return s.Keys(ctx, tag, cursor, about)
}

func (r *Redis) Size(ctx context.Context) (int64, error) {
	s, err := r.store()
	if err != nil {
		return 0, err
	}
	return s.Size(ctx)
}
