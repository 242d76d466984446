package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/redis/rueidis"
)

// Store decides in Redis. It is safe for use by any number of goroutines.
type Store struct {
	// Runs that overlap share pipelined connections. One that has no other before it takes a
	// connection for itself: written and read in place, without the pipeline's goroutines.
	pipelined, direct rueidis.Client

	script   luaScript // decides
	amend    luaScript // settles and bans
	mode     Mode
	prefix   string
	timeout  time.Duration // of a call
	patience time.Duration // of who may wait for a connection
	pace     pace
	lanes    []lane // one, or one for each slot of a cluster
	requests sync.Pool
	runs     atomic.Int64
	tickets  atomic.Int64
	noScript atomic.Int64

	open  context.Context // ends with Close
	close context.CancelFunc
}

var _ penstock.Store = (*Store)(nil)

// suspicion is after how long without a word a connection is asked whether it is still one. Not all that
// are lost say so.
const suspicion = 250 * time.Millisecond

// slots is how many a Redis Cluster has.
const slots = 16384

// Open connects to Redis.
func Open(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	option := rueidis.ClientOption{
		InitAddress:       o.Addresses,
		Username:          o.Username,
		Password:          o.Password,
		TLSConfig:         o.TLS,
		DialCtxFn:         o.Dial,
		ConnWriteTimeout:  max(o.Timeout, o.ConnectTimeout), // of a connection that others share
		ForceSingleClient: o.Mode == Single,
		DisableRetry:      true, // a charge whose reply was lost may have been taken
		DisableCache:      true, // counters change with every call; tracking them needs rights we do not ask for
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	}
	option.Dialer.Timeout = o.ConnectTimeout
	option.Dialer.KeepAlive = suspicion
	if o.Mode == Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLS,
		}
	}
	s := &Store{
		script: takeScript, amend: amendScript, mode: o.Mode, prefix: o.KeyPrefix,
		timeout: o.Timeout, patience: max(o.Timeout, o.ConnectTimeout), lanes: make([]lane, 1),
	}
	s.open, s.close = context.WithCancel(context.Background())
	s.requests.New = func() any { return newRequest() }
	if o.Mode == Cluster {
		s.lanes = make([]lane, slots)
	}
	if err := s.connect(option, o.Mode); err != nil {
		s.Close()
		return nil, fmt.Errorf("connect to redis %q (%s): %w: %w", o.Addresses, o.Mode, penstock.ErrUnavailable, err)
	}
	return s, nil
}

// connect makes the connections and finds out how far away Redis is.
func (s *Store) connect(option rueidis.ClientOption, mode Mode) (err error) {
	if s.pipelined, err = rueidis.NewClient(option); err != nil {
		return err
	}
	s.direct = s.pipelined
	if mode != Cluster {
		option.DisableAutoPipelining = true
		if s.direct, err = rueidis.NewClient(option); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	key := s.prefix + "{" + s.tagIn(rand.IntN(mode.Zones())) + "}" // PING would go to any address, gone or not
	for range 3 {                                                  // the first has a connection to make
		start := time.Now()
		if err := s.direct.Do(ctx, s.direct.B().Exists().Key(key).Build()).Error(); err != nil {
			return err
		}
		s.pace.roundTrip.Store(int64(time.Since(start)))
	}
	return nil
}

// Close ends the connections; calls under way fail.
func (s *Store) Close() error {
	s.close()
	for _, c := range []rueidis.Client{s.pipelined, s.direct} {
		if c != nil {
			c.Close()
		}
	}
	return nil
}

// Take decides the ticket in one round trip. On a cluster, where its subjects live in several
// slots, see takeAcross.
func (s *Store) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redis: not asked: %w: %w", penstock.ErrNotTaken, err)
	}
	l, one := s.lane(t)
	if !one {
		return s.takeAcross(ctx, t, out)
	}
	c := newCall(t)
	if err := s.exchange(ctx, l, c); err != nil {
		if errors.Is(err, errNotSent) {
			err = fmt.Errorf("%w: %w", penstock.ErrNotTaken, err)
		}
		return err
	}
	c.settle(t, out)
	calls.Put(c)
	return nil
}

// exchange sends a call with others of its lane and waits for what becomes of it. After an error
// the call may not be used again: a run may still hold it.
func (s *Store) exchange(ctx context.Context, l *lane, c *call) error {
	c.since = time.Now()
	if lead, alone := l.enter(c, s.pace.runs()); lead {
		if alone && s.inPlace(ctx) {
			l.lead(c.within(ctx, s.timeout), s, c, alone)
		} else {
			// With a deadline of its own: another run may take the call along, and it is used again.
			go l.lead(&until{context.Background(), c.since.Add(s.timeout)}, s, c, alone)
		}
	}
	if err := c.wait(ctx, s.timeout); err != nil {
		if l.leave(c) {
			return fmt.Errorf("redis: %w: %w: %w", errNotSent, penstock.ErrUnavailable, err)
		}
		return fmt.Errorf("redis: gave up waiting for the reply: %w: %w", penstock.ErrUnavailable, err)
	}
	err := c.err
	if err == nil {
		err = c.unpack()
	}
	if err != nil {
		return fmt.Errorf("redis: %w: %w", penstock.ErrUnavailable, err)
	}
	return nil
}

// errNotSent is wrapped by errors of calls that were never sent.
var errNotSent = errors.New("not sent")

// inPlace reports whether a run ends when the context does, or so soon that its caller may send it
// himself all the same, without a goroutine for it. The client knows deadlines only, and none in a
// pipeline while another call makes its connection.
func (s *Store) inPlace(ctx context.Context) bool {
	if s.direct == s.pipelined {
		return false
	}
	_, deadline := ctx.Deadline()
	return deadline || ctx.Done() == nil || s.timeout <= brief
}

// lane returns where the ticket's first subject travels, and whether all of them can.
func (s *Store) lane(t *penstock.Ticket) (_ *lane, one bool) {
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

// eval runs the script, by its name or, where the server does not know it, by its text. A server
// that does not know it has not run it, so this sends no charge twice.
func (s *Store) eval(ctx context.Context, client rueidis.Client, script *luaScript, keys []string, arg string) (string, error) {
	if client == s.pipelined { // a lone call has brought its deadline
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	b := client.B()
	reply := client.Do(ctx, b.Evalsha().Sha1(script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() {
		s.noScript.Add(1)
		reply = client.Do(ctx, b.Eval().Script(script.text).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	}
	text, err := reply.ToString()
	return text, timedOut(err, s.timeout)
}

// timedOut says of a connection's timeout what a context's would say: which of the two comes first is
// a matter of chance.
func timedOut(err error, after time.Duration) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w: %w", after, context.DeadlineExceeded, err)
	}
	return err
}

// Stats count what the store did since it was opened.
type Stats struct {
	Tickets  int64 // sent
	Runs     int64 // round trips they took
	NoScript int64 // runs that had to be sent again with the script's text
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Tickets: s.tickets.Load(), Runs: s.runs.Load(), NoScript: s.noScript.Load()}
}
