// Package limiter contains the limiters that are compared, ours and the peers', behind one interface: those that keep
// their state in process memory, and those that keep it in Redis.
//
// It is separate from the sections because several measure the same limiters.
package limiter

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// A Limit is what every contestant enforces: Count at once, and again after Window.
type Limit struct {
	Count    int64
	Window   time.Duration
	MaxBytes int64 // of our store in memory; 0: its default
}

var (
	// Roomy is a limit that no benchmark in memory exhausts. It is the largest that all contestants support.
	Roomy = Limit{Count: 1_000_000_000, Window: time.Hour}

	// Spent is a limit that one request exhausts for longer than a benchmark lasts.
	Spent = Limit{Count: 1, Window: time.Hour}

	// Slow is a limit that no benchmark on Redis exhausts. It takes seconds to refill by one, so that a charged key
	// still exists at its next request.
	Slow = Limit{Count: 10_000_000, Window: 366 * 24 * time.Hour}
)

// with returns our limit with an algorithm.
func (l Limit) with(a penstock.Algorithm) penstock.Limit {
	return penstock.Limit{Algorithm: a, Count: l.Count, Window: l.Window}
}

// A Contestant is a way of limiting.
type Contestant struct {
	Name string
	Role report.Role
	Open func(b *lab.Bench, addr string, l Limit) lab.Limiter // addr is that of Redis

	// Bounded contestants allow no more than logCount requests of a key, so that one hot key cannot be measured.
	Bounded bool

	// MayGiveUp contestants fail if too many clients want the same key.
	MayGiveUp bool
}

// Names that goals and other benchmarks refer to.
const (
	Headline   = "penstock token_bucket"
	Batched    = "penstock token_bucket, 32 at a time"
	RedisRate  = "redis_rate v10"
	FourTrips  = "four round trips"
	OurLog     = "penstock sliding_window_log 100"
	OurTwo     = "penstock two limits per call"
	TheirTwo   = "sethvargo/go-limiter, two limits, one after the other"
	OurThree   = "penstock three limits per call"
	OurCounter = "penstock sliding_window_counter"
)

// Find returns the named contestant, or ends the section.
func Find(among []Contestant, name string) Contestant {
	i := slices.IndexFunc(among, func(c Contestant) bool { return c.Name == name })
	if i < 0 {
		lab.Check(fmt.Errorf("no contestant is called %q", name))
	}
	return among[i]
}
