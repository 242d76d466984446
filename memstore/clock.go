package memstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
)

// A clock keeps a coarse instant while it is asked often enough to be worth it. The instant is
// never ahead of the real clock; it is about a tick behind, more if the processors are overloaded.
type clock struct {
	coarse atomic.Int64 // 0 while nobody keeps it fresh
	asked  atomic.Bool  // since the last tick
	last   atomic.Int64 // when the real clock was read last, while there is no coarse one

	onTick func(penstock.Instant)

	mu      sync.Mutex
	running bool
	closed  chan struct{}
	ended   sync.WaitGroup
}

const (
	tick = 500 * time.Microsecond

	// dense is how close, in µs, two calls must follow each other for the goroutine to start: from
	// there on it reads the clock less often than the calls would.
	dense = 250

	// patience is how many ticks without a call, less those with many, end the goroutine: a second.
	patience = int(time.Second / tick)
)

func realNow() penstock.Instant { return penstock.InstantOf(time.Now()) }

// now returns an instant and whether it is exact.
func (c *clock) now() (_ penstock.Instant, exact bool) {
	if at := c.coarse.Load(); at != 0 {
		if !c.asked.Load() {
			c.asked.Store(true)
		}
		return penstock.Instant(at), false
	}
	now := realNow()
	if before := c.last.Swap(int64(now)); int64(now)-before < dense {
		c.start()
	}
	return now, true
}

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return
	default:
	}
	if !c.running {
		c.running = true
		c.ended.Go(c.run)
	}
}

func (c *clock) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for idle := 0; idle < patience; {
		now := realNow()
		c.coarse.Store(int64(now))
		c.onTick(now)
		select {
		case <-ticker.C:
		case <-c.closed:
			idle = patience
		}
		if c.asked.Load() {
			c.asked.Store(false)
			idle = max(0, idle-4)
		} else {
			idle++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coarse.Store(0)
	c.running = false
}

// close ends the goroutine and waits for it. The clock can still be asked; it is then exact.
func (c *clock) close() {
	c.mu.Lock()
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	c.mu.Unlock()
	c.ended.Wait()
}
