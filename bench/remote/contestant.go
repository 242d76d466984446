package remote

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/report"
)

// A Limit is what every contestant enforces: Count at once, and again after Window.
type Limit struct {
	Count  int64
	Window time.Duration
}

// Roomy is a limit that no benchmark exhausts. It takes seconds to refill by one, so that a charged key still
// exists at its next request.
var Roomy = Limit{Count: 10_000_000, Window: 366 * 24 * time.Hour}

// logWindow replaces the window for limiters that remember each request: with a window of a year they would
// remember the whole benchmark.
const logWindow = 10 * time.Second

// logCount is the limit of our log: the maximum size of every key's log.
const logCount = 100

// lasting returns the cost at which a key is warmed, for limiters that drop a key once it has refilled. Of Roomy,
// it takes most of an hour to refill.
func (l Limit) lasting() int64 { return max(1, l.Count/10_000) }

// A TakeFunc charges one to the key and reports whether it was allowed.
type TakeFunc func(ctx context.Context, key string) (allowed bool, err error)

// A Limiter is a contestant connected to a server.
type Limiter interface {
	// Caller returns a Take for one goroutine, which may keep its own scratch memory.
	Caller() TakeFunc

	// Warm creates the state of a key so that it lasts.
	Warm(ctx context.Context, key string) error

	Close()
}

// A Contestant is a way of limiting with Redis.
type Contestant struct {
	Name string
	Role report.Role

	// Bounded contestants allow no more than logCount requests of a key, so that one hot key cannot be measured.
	Bounded bool

	// MayGiveUp contestants fail if too many clients want the same key. Their failures are counted and do not end the
	// benchmark.
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

// Contestants returns all that are compared, ours first, the ceilings last.
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

// sharedLimiter is a limiter that keeps nothing per goroutine.
type sharedLimiter struct {
	take  TakeFunc
	warm  func(ctx context.Context, key string) error // nil: take once
	close func()
}

func (s sharedLimiter) Caller() TakeFunc { return s.take }
func (s sharedLimiter) Close()           { s.close() }

func (s sharedLimiter) Warm(ctx context.Context, key string) error {
	if s.warm != nil {
		return s.warm(ctx, key)
	}
	_, err := s.take(ctx, key)
	return err
}
