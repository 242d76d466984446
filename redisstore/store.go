package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/redis/rueidis"
)

// Mode is how the servers are arranged.
type Mode string

const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// Options say where Redis is and how to use it.
type Options struct {
	Addresses []string // host:port of the server, the sentinels, or some nodes of the cluster
	Mode      Mode     // default Single
	Master    string   // Sentinel: the name of the master

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	TLS                                *tls.Config

	KeyPrefix string        // default "pen:"; must not contain { or }
	Timeout   time.Duration // of one run, connection included; default 1s

	// Dial replaces the dialer, for tests that put something between.
	Dial func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error)
}

// Store decides in Redis. It is safe for use by any number of goroutines.
type Store struct {
	// Runs that overlap share pipelined connections. One that has no other before it takes a
	// connection for itself: written and read in place, without the pipeline's goroutines.
	pipelined, direct rueidis.Client

	script   luaScript // decides
	amend    luaScript // settles and bans
	prefix   string
	timeout  time.Duration
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

// slots is how many a Redis Cluster has.
const slots = 16384

func (o *Options) validate() error {
	var errs []error
	if len(o.Addresses) == 0 {
		errs = append(errs, errors.New("addresses: none given, for example 127.0.0.1:6379"))
	}
	for _, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			errs = append(errs, fmt.Errorf("address %q: %w", a, err))
		}
	}
	switch o.Mode {
	case "":
		o.Mode = Single
	case Single, Cluster:
	case Sentinel:
		if o.Master == "" {
			errs = append(errs, errors.New("master: sentinel mode needs the master's name"))
		}
	default:
		errs = append(errs, fmt.Errorf("mode %q: must be single, sentinel or cluster", o.Mode))
	}
	if o.Mode == Single && len(o.Addresses) > 1 {
		errs = append(errs, fmt.Errorf("addresses %q: single mode takes one; for several choose sentinel or cluster", o.Addresses))
	}
	if o.Mode != Sentinel && o.Master != "" {
		errs = append(errs, fmt.Errorf("master %q: has a meaning only in sentinel mode", o.Master))
	}
	if o.KeyPrefix == "" {
		o.KeyPrefix = "pen:"
	}
	if len(o.KeyPrefix) > 64 {
		errs = append(errs, fmt.Errorf("key prefix of %d bytes: at most 64", len(o.KeyPrefix)))
	}
	for _, r := range o.KeyPrefix {
		if r == '{' || r == '}' || r <= ' ' || r == 0x7f {
			errs = append(errs, fmt.Errorf("key prefix %q: must not contain %q: braces choose the slot", o.KeyPrefix, r))
			break
		}
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %v: must be positive", o.Timeout))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w redis options: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return nil
}

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
		ConnWriteTimeout:  o.Timeout,
		ForceSingleClient: o.Mode == Single,
		DisableRetry:      true, // a charge whose reply was lost may have been taken
		DisableCache:      true, // counters change with every call; tracking them needs rights we do not ask for
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	}
	option.Dialer.Timeout = o.Timeout
	if o.Mode == Sentinel {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLS,
		}
	}
	s := &Store{script: takeScript, amend: amendScript, prefix: o.KeyPrefix, timeout: o.Timeout, lanes: make([]lane, 1)}
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
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	for range 3 { // the first has a connection to make
		start := time.Now()
		if err := s.direct.Do(ctx, s.direct.B().Ping().Build()).Error(); err != nil {
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
		return fmt.Errorf("redis: not asked: %w: %w", penstock.ErrUnavailable, err)
	}
	l, one := s.lane(t)
	if !one {
		return s.takeAcross(ctx, t, out)
	}
	c := newCall(t)
	if err := s.exchange(ctx, l, c); err != nil {
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
		if s.heeds(ctx, alone) {
			l.lead(ctx, s, c, alone)
		} else {
			go l.lead(context.Background(), s, c, alone)
		}
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if l.leave(c) {
			return fmt.Errorf("redis: not sent: %w: %w", penstock.ErrUnavailable, ctx.Err())
		}
		return fmt.Errorf("redis: gave up waiting for the reply: %w: %w", penstock.ErrUnavailable, ctx.Err())
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

// heeds reports whether a run ends with the context, so that its caller may send it himself. The
// client knows deadlines only, and none in a pipeline while another call makes its connection.
func (s *Store) heeds(ctx context.Context, alone bool) bool {
	if ctx.Done() == nil {
		return true
	}
	_, deadline := ctx.Deadline()
	return deadline && alone && s.direct != s.pipelined
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
	if client == s.pipelined || ctx.Done() != nil { // else the connection's own timeout is enough
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
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w: %w", s.timeout, context.DeadlineExceeded, err)
	}
	return text, err
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
