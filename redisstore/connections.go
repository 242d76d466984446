package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/internal/redisdial"
	"github.com/penstock-io/penstock/storage"
)

// connections are the connections of a store, made by the first attempt that succeeds. After that the
// client library replaces lost ones.
type connections struct {
	// A run has its own connection, written and read in place, so closing it after a timeout affects no
	// other request. Everything else shares pipelined connections. On a cluster, where there is a lane for
	// every slot, runs share them too, and the two clients are the same.
	direct, pipelined rueidis.Client
	wires, pipes      *links       // links of the two clients
	idle              atomic.Int64 // connections for runs that are not in use
	checking          atomic.Bool  // a check of the idle connections is running

	lifetime context.Context // of the store
}

// keepAliveIdle is how long a connection may be silent before a keep-alive probe checks it. Not every lost
// connection reports an error.
const keepAliveIdle = 250 * time.Millisecond

// What connections expect at most: the reply to a run; operators' listings and the slots of a cluster.
const (
	maxRunReply     = 256 << 10
	maxListingReply = 4 << 20
)

var (
	runLimits       = redisdial.Limits{Bytes: maxRunReply, Elements: 4 << 10}
	pipelinedLimits = redisdial.Limits{Bytes: maxListingReply, Elements: 256 << 10}
)

// checkConnected returns an error that says why there are no connections. Call it before using s.conns.
func (s *Store) checkConnected() error {
	if s.conns.Load() != nil {
		return nil
	}
	return fmt.Errorf("redis: not connected: %w: %w", storage.ErrNotTaken, *s.problem.Load())
}

// connect connects, unless the store is connected. Concurrent callers share one attempt.
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
		if s.open.Err() != nil { // closed in the meantime
			c.close()
		}
		return nil, nil
	})
	return err
}

// dial makes connections and measures the round trip to Redis.
func (s *Store) dial() (*connections, error) {
	s.limit.max.Store(int64(s.patience)) // connecting may take longer
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
	option.DialCtxFn = c.pipes.dialer(o.Dial, o.Mode == Single)
	option.ConnWriteTimeout = s.patience
	// Without it, the first command on a connection sets its own deadline on the connection, and its expiry
	// closes the connection with the commands queued behind it.
	option.AlwaysPipelining = true
	if c.pipelined, err = redisdial.NewClient(option, pipelinedLimits); err != nil {
		return err
	}
	c.direct, c.wires = c.pipelined, c.pipes
	if o.Mode != Cluster {
		c.wires = newLinks(s.limit.get, s.limit.observe, o.ConnectTimeout)
		option.DialCtxFn = c.wires.dialer(o.Dial, o.Mode == Single)
		option.ConnWriteTimeout = o.Timeout + s.patience // links time out sooner
		option.AlwaysPipelining, option.DisableAutoPipelining = false, true
		if c.direct, err = redisdial.NewClient(option, runLimits); err != nil {
			return err
		}
	}
	return nil
}

// measure measures the round trip time.
func (c *connections) measure(s *Store) error {
	ctx, cancel := context.WithTimeout(s.open, s.patience)
	defer cancel()
	key := s.prefix + "{" + s.tagIn(rand.IntN(s.mode.Zones())) + "}" // PING would go to any address, reachable or not
	for range 3 {                                                    // the first one has to connect
		start := time.Now()
		if err := c.do(ctx, c.direct, c.direct.B().Exists().Key(key).Build()).Error(); err != nil {
			return err
		}
		s.pace.roundTrip.Store(int64(time.Since(start)))
	}
	return nil
}

// do sends a command.
func (c *connections) do(ctx context.Context, client rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
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

// checkIdle checks the idle connections after a connection has failed. The client library closes those that
// do not work. Otherwise each would cost a failed request.
func (c *connections) checkIdle() {
	defer c.checking.Store(false)
	var all sync.WaitGroup
	for range c.idle.Load() { // concurrently, so that each probe gets a different connection
		all.Go(func() { c.do(c.lifetime, c.direct, c.direct.B().Ping().Build()) })
	}
	all.Wait()
}

// close closes the connections. Requests in flight fail.
func (c *connections) close() {
	for _, client := range []rueidis.Client{c.pipelined, c.direct} {
		if client != nil {
			client.Close()
		}
	}
}
