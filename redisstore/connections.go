package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/storage"
)

// connections are those of a store, made at the first attempt that succeeds. After that the client library
// makes new ones where some are lost.
type connections struct {
	// A run has a connection for itself, written and read in place, so that one which is given up on
	// and closed is nobody else's. Everything else shares pipelined connections; on a cluster, where
	// there is a lane for every slot, runs do too and the two clients are the same.
	direct, pipelined rueidis.Client
	wires, pipes      *links       // of the two
	idle              atomic.Int64 // connections for runs that are not in use
	checking          atomic.Bool  // whether they work

	lifetime context.Context // of the store
}

// suspicion is after how long without a word a connection is asked whether it is still one. Not all that
// are lost say so.
const suspicion = 250 * time.Millisecond

// checkConnected returns an error that says why there are no connections. Nobody may use s.conns before.
func (s *Store) checkConnected() error {
	if s.conns.Load() != nil {
		return nil
	}
	return fmt.Errorf("redis: not connected: %w: %w", storage.ErrNotTaken, *s.problem.Load())
}

// connect connects, unless that is done. All who call it meanwhile share the attempt.
func (s *Store) connect() error {
	if s.conns.Load() != nil {
		return nil
	}
	_, err, _ := s.connecting.Do("", func() (any, error) {
		if s.conns.Load() != nil {
			return nil, nil
		}
		c, err := s.dial()
		if err != nil {
			err = fmt.Errorf("connect to redis %q (%s): %w: %w", s.options.Addresses, s.options.Mode, storage.ErrUnavailable, err)
			s.problem.Store(&err)
			return nil, err
		}
		s.conns.Store(c)
		if s.open.Err() != nil { // closed meanwhile
			c.close()
		}
		return nil, nil
	})
	return err
}

// dial makes connections and finds out how far away Redis is.
func (s *Store) dial() (*connections, error) {
	s.limit.max.Store(int64(s.patience)) // connecting has more time
	c := &connections{lifetime: s.open}
	err := c.open(s)
	if err == nil {
		err = c.measure(s)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	s.limit.max.Store(int64(s.options.Timeout))
	return c, nil
}

func (c *connections) open(s *Store) (err error) {
	o, option := &s.options, s.options.client()
	c.pipes = newLinks(func() time.Duration { return s.patience }, s.limit.observe, o.ConnectTimeout)
	option.DialCtxFn = c.pipes.dialer(o.Dial)
	option.ConnWriteTimeout = s.patience
	// Without it the first command on a connection puts its deadline on it and closes it then, with the
	// commands that wait behind it.
	option.AlwaysPipelining = true
	if c.pipelined, err = rueidis.NewClient(option); err != nil {
		return err
	}
	c.direct, c.wires = c.pipelined, c.pipes
	if o.Mode != Cluster {
		c.wires = newLinks(s.limit.get, s.limit.observe, o.ConnectTimeout)
		option.DialCtxFn = c.wires.dialer(o.Dial)
		option.ConnWriteTimeout = o.Timeout + s.patience // links judge sooner
		option.AlwaysPipelining, option.DisableAutoPipelining = false, true
		if c.direct, err = rueidis.NewClient(option); err != nil {
			return err
		}
	}
	return nil
}

// measure finds out how long a round trip takes.
func (c *connections) measure(s *Store) error {
	ctx, cancel := context.WithTimeout(s.open, s.patience)
	defer cancel()
	key := s.prefix + "{" + s.tagIn(rand.IntN(s.mode.Zones())) + "}" // PING would go to any address, gone or not
	for range 3 {                                                    // the first has a connection to make
		start := time.Now()
		if err := c.ask(ctx, c.direct, c.direct.B().Exists().Key(key).Build()).Error(); err != nil {
			return err
		}
		s.pace.roundTrip.Store(int64(time.Since(start)))
	}
	return nil
}

// ask sends a command.
func (c *connections) ask(ctx context.Context, client rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	if client != c.direct || c.direct == c.pipelined {
		return client.Do(ctx, cmd)
	}
	for idle := c.idle.Load(); idle > 0 && !c.idle.CompareAndSwap(idle, idle-1); idle = c.idle.Load() {
	}
	reply := client.Do(ctx, cmd)
	if reply.NonRedisError() == nil {
		c.idle.Add(1)
	} else if c.checking.CompareAndSwap(false, true) {
		go c.checkIdle()
	}
	return reply
}

// checkIdle finds out, after a connection has failed, whether those that are not in use work. The
// client library closes those that do not. Else each would be noticed by a request that fails.
func (c *connections) checkIdle() {
	defer c.checking.Store(false)
	var all sync.WaitGroup
	for range c.idle.Load() { // at the same time, so that each gets another one
		all.Go(func() { c.ask(c.lifetime, c.direct, c.direct.B().Ping().Build()) })
	}
	all.Wait()
}

// close ends the connections; calls under way fail.
func (c *connections) close() {
	for _, client := range []rueidis.Client{c.pipelined, c.direct} {
		if client != nil {
			client.Close()
		}
	}
}
