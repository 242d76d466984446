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

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
)

// Store decides in Redis. It is safe for use by any number of goroutines.
type Store struct {
	// A run has a connection for itself, written and read in place, so that one which is given up on
	// and closed is nobody else's. Everything else shares pipelined connections; on a cluster, where
	// there is a lane for every slot, runs do too and the two clients are the same.
	direct, pipelined rueidis.Client
	wires, pipes      *links       // of the two
	idle              atomic.Int64 // connections for runs that are not in use
	checking          atomic.Bool  // whether they work

	script   luaScript // decides
	amend    luaScript // settles and bans
	mode     Mode
	prefix   string
	limit    limit
	patience time.Duration // of whoever may wait for a connection, and beyond the limit while Redis owes nothing
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
		patience: max(o.Timeout, o.ConnectTimeout), lanes: make([]lane, 1),
	}
	s.limit.max.Store(int64(s.patience)) // connecting has more time
	s.open, s.close = context.WithCancel(context.Background())
	s.requests.New = func() any { return newRequest() }
	if o.Mode == Cluster {
		s.lanes = make([]lane, slots)
	}
	if err := s.connect(option, &o); err != nil {
		s.Close()
		return nil, fmt.Errorf("connect to redis %q (%s): %w: %w", o.Addresses, o.Mode, penstock.ErrUnavailable, err)
	}
	s.limit.max.Store(int64(o.Timeout))
	return s, nil
}

// connect makes the connections and finds out how far away Redis is.
func (s *Store) connect(option rueidis.ClientOption, o *Options) (err error) {
	s.pipes = newLinks(func() time.Duration { return s.patience }, s.limit.observe, o.ConnectTimeout)
	option.DialCtxFn = s.pipes.dialer(o.Dial)
	option.ConnWriteTimeout = s.patience
	// Without it the first command on a connection puts its deadline on it and closes it then, with the
	// commands that wait behind it.
	option.AlwaysPipelining = true
	if s.pipelined, err = rueidis.NewClient(option); err != nil {
		return err
	}
	s.direct, s.wires = s.pipelined, s.pipes
	if o.Mode != Cluster {
		s.wires = newLinks(s.limit.get, s.limit.observe, o.ConnectTimeout)
		option.DialCtxFn = s.wires.dialer(o.Dial)
		option.ConnWriteTimeout = o.Timeout + s.patience // links judge sooner
		option.AlwaysPipelining, option.DisableAutoPipelining = false, true
		if s.direct, err = rueidis.NewClient(option); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	key := s.prefix + "{" + s.tagIn(rand.IntN(o.Mode.Zones())) + "}" // PING would go to any address, gone or not
	for range 3 {                                                    // the first has a connection to make
		start := time.Now()
		if err := s.ask(ctx, s.direct, s.direct.B().Exists().Key(key).Build()).Error(); err != nil {
			return err
		}
		s.pace.roundTrip.Store(int64(time.Since(start)))
	}
	return nil
}

// ask sends a command.
func (s *Store) ask(ctx context.Context, client rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	if client != s.direct || s.direct == s.pipelined {
		return client.Do(ctx, cmd)
	}
	for idle := s.idle.Load(); idle > 0 && !s.idle.CompareAndSwap(idle, idle-1); idle = s.idle.Load() {
	}
	reply := client.Do(ctx, cmd)
	if reply.NonRedisError() == nil {
		s.idle.Add(1)
	} else if s.checking.CompareAndSwap(false, true) {
		go s.checkIdle()
	}
	return reply
}

// checkIdle finds out, after a connection has failed, whether those that are not in use work. The
// client library closes those that do not. Else each would be noticed by a request that fails.
func (s *Store) checkIdle() {
	defer s.checking.Store(false)
	var all sync.WaitGroup
	for range s.idle.Load() { // at the same time, so that each gets another one
		all.Go(func() { s.ask(s.open, s.direct, s.direct.B().Ping().Build()) })
	}
	all.Wait()
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
		return proven(err)
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
			l.lead(c.within(ctx), s, c, alone)
		} else {
			go l.lead(context.Background(), s, c, alone)
		}
	}
	if err := c.wait(ctx, s); err != nil {
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

// inPlace reports whether a caller may send a run itself, without a goroutine for it: there is a
// connection, and the run ends when the context does or soon enough. The client library knows
// deadlines only.
func (s *Store) inPlace(ctx context.Context) bool {
	if s.idle.Load() == 0 {
		return false
	}
	_, deadline := ctx.Deadline()
	return deadline || ctx.Done() == nil || s.limit.max.Load() <= int64(brief)
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
	b := client.B()
	reply := s.ask(ctx, client, b.Evalsha().Sha1(script.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() {
		s.noScript.Add(1)
		reply = s.ask(ctx, client, b.Eval().Script(script.text).Numkeys(int64(len(keys))).Key(keys...).Arg(arg).Build())
	}
	text, err := reply.ToString()
	return text, timedOut(err, s.limit.get())
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
