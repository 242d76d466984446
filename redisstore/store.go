package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/penstock-io/penstock/storage"
)

// Store decides in Redis. It is safe for concurrent use.
type Store struct {
	options    Options
	conns      atomic.Pointer[connections] // nil until Redis is reached
	connecting singleflight.Group
	problem    atomic.Pointer[error] // error of the last attempt to connect

	script   luaScript // decides
	amend    luaScript // settles and bans
	mode     Mode
	prefix   string
	limit    limit
	patience time.Duration // longest wait for a connection, and beyond the limit while Redis owes nothing
	pace     pacer
	lanes    []lane // one, or one for each slot of a cluster
	watch    watch
	marks    marks
	requests sync.Pool
	runs     atomic.Int64
	tickets  atomic.Int64
	noScript atomic.Int64

	open  context.Context // ends with Close
	close context.CancelFunc
}

var _ storage.FullStore = (*Store)(nil)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

var errNotTried = errors.New("redis: not connected yet")

// New returns a store that connects to Redis on the first [Store.Ping]. Until a ping succeeds, the store is
// unavailable, and its errors wrap [storage.ErrNotTaken].
func New(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		options: o,
		script:  takeScript, amend: amendScript, mode: o.Mode, prefix: o.KeyPrefix,
		patience: max(o.Timeout, o.ConnectTimeout), lanes: make([]lane, 1),
	}
	s.watch.init()
	s.problem.Store(&errNotTried)
	s.open, s.close = context.WithCancel(context.Background())
	s.requests.New = func() any { return newRequest() }
	if o.Mode == Cluster {
		s.lanes = make([]lane, slots)
	}
	return s, nil
}

// String returns where the store is, without its secrets.
func (s *Store) String() string {
	return fmt.Sprintf("redis://%s (%s)", strings.Join(s.options.Addresses, ","), s.options.Mode)
}

// GoString implements fmt.GoStringer.
func (s *Store) GoString() string { return s.String() }

// Open returns a store that is connected to Redis.
func Open(o Options) (*Store, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := s.connect(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// Close closes the connections. Requests in flight fail.
func (s *Store) Close() error {
	s.close()
	if c := s.conns.Load(); c != nil {
		c.close()
	}
	return nil
}

// Take decides the ticket in one round trip. On a cluster, if its subjects live in several slots, see
// takeAcross.
func (s *Store) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redis: not asked: %w: %w", storage.ErrNotTaken, err)
	}
	if err := s.checkConnected(); err != nil {
		return err
	}
	l, one := s.lane(t)
	if !one {
		return s.takeAcross(ctx, t, out)
	}
	c := newCall(t)
	if err := s.exchange(ctx, l, c); err != nil {
		return markNotTaken(err)
	}
	c.settle(t, out)
	calls.Put(c)
	return nil
}

// exchange sends a call with others of its lane and waits for its result. After an error the call must not
// be reused: a run may still hold it.
func (s *Store) exchange(ctx context.Context, l *lane, c *pendingTicket) error {
	c.since = clock()
	if lead, alone := l.enter(c, s.pace.runs()); lead {
		if alone && s.inPlace(ctx) {
			l.sendRun(c.within(ctx), s, c, alone)
		} else {
			go l.sendRun(context.Background(), s, c, alone)
		}
	}
	if err := c.wait(ctx, s); err != nil {
		if l.remove(c) {
			return fmt.Errorf("redis: %w: %w: %w", errNotSent, storage.ErrUnavailable, err)
		}
		return fmt.Errorf("redis: gave up waiting for the reply: %w: %w", storage.ErrUnavailable, err)
	}
	err := c.err
	if err == nil {
		err = c.unpack()
	}
	if err != nil {
		return fmt.Errorf("redis: %w: %w", storage.ErrUnavailable, err)
	}
	return nil
}

// errNotSent is wrapped by the errors of tickets that were never sent.
var errNotSent = errors.New("not sent")

// inPlace reports whether a caller may send a run itself, without a goroutine for it: there is a
// connection, and the run ends with the context or soon enough. The client library supports only deadlines.
func (s *Store) inPlace(ctx context.Context) bool {
	if s.conns.Load().idle.Load() == 0 {
		return false
	}
	_, deadline := ctx.Deadline()
	return deadline || ctx.Done() == nil || s.limit.max.Load() <= int64(brief)
}

// lane returns the lane of the ticket's first subject, and whether all subjects share it.
func (s *Store) lane(t *storage.Ticket) (_ *lane, one bool) {
	if len(s.lanes) == 1 {
		return &s.lanes[0], true
	}
	slot := slotOf(t.Groups[0].Subject)
	for i := 1; i < len(t.Groups); i++ {
		if slotOf(t.Groups[i].Subject) != slot {
			return nil, false
		}
	}
	return s.laneAt(slot), true
}

func (s *Store) laneAt(slot int) *lane {
	return &s.lanes[min(slot, len(s.lanes)-1)]
}

// eval runs the script by its hash or, if the server does not know it, by its text. A server that does not
// know it has not run it, so this sends no charge twice.
func (s *Store) eval(ctx context.Context, client rueidis.Client, script *luaScript, keys []string, arg string) (string, error) {
	conn, b := s.conns.Load(), client.B()
	reply := conn.do(ctx, client, b.Evalsha().Sha1(script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() {
		s.noScript.Add(1)
		reply = conn.do(ctx, client, b.Eval().Script(script.text).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	}
	text, err := reply.ToString()
	return text, timedOut(err, s.limit.get())
}

// timedOut turns a timeout of a connection into the error that a context would return, because it is a
// matter of chance which comes first.
func timedOut(err error, after time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w: %w", after, context.DeadlineExceeded, err)
	}
	return err
}

// Stats counts what the store has done since it was opened.
type Stats struct {
	Tickets  int64 // sent
	Runs     int64 // round trips for them
	NoScript int64 // runs that had to be sent again with the script's text
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Tickets: s.tickets.Load(), Runs: s.runs.Load(), NoScript: s.noScript.Load()}
}
