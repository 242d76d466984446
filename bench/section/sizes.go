// Package section contains the benchmarks of limiters and engines: in process memory, on Redis, by rules, and how costs
// grow. Each is one function that returns a section of the report.
package section

import "time"

// Sizes configure how much each benchmark measures. A cell is the time of one repeat of one figure.
type Sizes struct {
	MemoryKeys  int
	MemoryCell  time.Duration
	WeighedKeys int
	HugeKeys    int
	HugeCell    time.Duration

	RedisKeys   int
	RedisCell   time.Duration
	LogKeys     int // keys whose logs are filled to be weighed
	LatencyCell time.Duration
	KeptUp      time.Duration // maximum 99th percentile of the latency at a sustainable rate
	Travels     int           // requests per caller, repeat and network
	GuardedKeys int

	HotCell time.Duration
	Scarce  int64 // requests per second, a limit that several nodes reach

	Rules     int // in the largest set
	RulesCell time.Duration

	// The last points of the curves of scale.
	ScaledLimits, ScaledKeys, ScaledRules, ScaledNodes int
	ScaleCell                                          time.Duration
}
