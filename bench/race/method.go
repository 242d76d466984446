package race

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A Method is one way of deciding requests against a limit kept in Redis.
type Method struct {
	Name string // short, without a comma: a row of the table, an entry of a legend
	What string // one line: the commands it sends and when it allows

	// Open prepares the way on one node. It runs once per node and network, before any request is measured. The node
	// closes what it opened.
	Open func(ctx context.Context, node Node, limit Limit) (Decider, error)
}

// Limit is the limit for all clients: Calls per Window.
type Limit struct {
	Calls  int
	Window time.Duration
}

// Node is one process's view of Redis: its own client, over its own network.
type Node struct {
	Addr   string         // where this node reaches Redis: its delay proxy, or the server itself
	Client rueidis.Client // one shared, pipelined connection to Addr
}

// A Decider decides requests from many goroutines at once.
type Decider interface {
	// Decide charges one request to key. If ctx ends first, the error wraps the context's.
	Decide(ctx context.Context, key string) (Answer, error)
	// Close releases what Open acquired.
	Close()
}

// Answer is the answer for one client and what it waited for.
type Answer struct {
	Allowed bool
	Trips   int // sequential waits for Redis; commands sent together are one
	Retries int // further attempts because another client interfered
}

// decideFunc is a Decider with nothing to close.
type decideFunc func(ctx context.Context, key string) (Answer, error)

func (f decideFunc) Decide(ctx context.Context, key string) (Answer, error) { return f(ctx, key) }

func (f decideFunc) Close() {}

// Ways returns the techniques people use, in the order they tend to try them.
func Ways() []Method {
	return []Method{
		checkThenAdd,
		addThenCount,
		addThenCountShared,
		transaction,
		locked,
		optimistic,
		scriptText,
		scriptCached,
	}
}

var memberSerial atomic.Uint64

// newMember returns a unique name for one request in the log.
func newMember() string {
	return fmt.Sprintf("%d-%d", time.Now().UnixMicro(), memberSerial.Add(1))
}

// window is the log's arithmetic for clients without a script: by their own clock.
type window struct{ now, oldest, ttl string }

func windowAt(now time.Time, length time.Duration) window {
	return window{
		now:    fmt.Sprint(now.UnixMicro()),
		oldest: fmt.Sprint(now.Add(-length).UnixMicro()),
		ttl:    fmt.Sprint(length.Milliseconds()),
	}
}
