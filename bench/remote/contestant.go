package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/report"
)

// A Limit is what every contestant is to enforce: Count at once, and again after Window.
type Limit struct {
	Count  int64
	Window time.Duration
}

// Roomy is a limit that no benchmark exhausts, and that takes seconds to give one back, so that
// a key which was charged is still there at its next call.
var Roomy = Limit{Count: 10_000_000, Window: 366 * 24 * time.Hour}

// logWindow replaces the window for those that remember each call: in a year's they would
// remember the whole benchmark.
const logWindow = 10 * time.Second

// logCount is the limit of our log: what every key's log could grow to.
const logCount = 100

// lasting is the cost at which a key is warmed, for those that forget a key once it has refilled:
// of Roomy it takes most of an hour to come back.
func (l Limit) lasting() int64 { return max(1, l.Count/10_000) }

// A Take charges one to the key and tells whether it passed.
type Take func(ctx context.Context, key string) (allowed bool, err error)

// A Limiter is a contestant connected to a server.
type Limiter interface {
	// Caller returns a Take for one goroutine, which may keep scratch memory of its own.
	Caller() Take

	// Warm makes the state of a key exist and last.
	Warm(ctx context.Context, key string) error

	Close()
}

// A Contestant is a way of limiting with Redis.
type Contestant struct {
	Name string
	Role report.Role

	// Bounded contestants let no more than logCount calls of a key pass, so that one hot key
	// cannot be measured.
	Bounded bool

	// MayGiveUp contestants fail where too many callers want the same key; their failures are
	// counted, not treated as the benchmark's.
	MayGiveUp bool

	Open func(ctx context.Context, addr string, l Limit) (Limiter, error)
}

// Names that goals and other benchmarks refer to.
const (
	Headline   = "penstock token_bucket"
	RedisRate  = "redis_rate v10"
	FourTrips  = "four round trips"
	OurLog     = "penstock sliding_window_log 100"
	OurTwo     = "penstock two limits per call"
	OurThree   = "penstock three limits per call"
	OurCounter = "penstock sliding_window_counter"
)

// Contestants are all that are compared, ours first, the ceilings last.
func Contestants() []Contestant { return slices.Concat(ours(), goRedisPeers(), byHand()) }

// Find returns the named contestant.
func Find(name string) (Contestant, error) {
	all := append(Contestants(), threeLimits)
	i := slices.IndexFunc(all, func(c Contestant) bool { return c.Name == name })
	if i < 0 {
		return Contestant{}, fmt.Errorf("no contestant is called %q", name)
	}
	return all[i], nil
}

// shared is a limiter that keeps nothing per goroutine.
type shared struct {
	take  Take
	warm  func(ctx context.Context, key string) error // nil: take once
	close func()
}

func (s shared) Caller() Take { return s.take }
func (s shared) Close()       { s.close() }

func (s shared) Warm(ctx context.Context, key string) error {
	if s.warm != nil {
		return s.warm(ctx, key)
	}
	_, err := s.take(ctx, key)
	return err
}
