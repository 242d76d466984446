// Package plan estimates what a rate limiter of a given size takes: counters, memory, processors, network,
// nodes. What a counter and a decision cost is measured, not assumed.
package plan

import (
	"time"

	"github.com/penstock-io/penstock"
)

// algorithms are those that plans know, in the order of their names in the documentation.
var algorithms = []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket, penstock.LeakyBucket}

// StoreCosts are what a store takes.
type StoreCosts struct {
	Counter  float64       `json:"bytes_per_counter"`   // of every algorithm but the log, the key included
	Log      float64       `json:"bytes_per_log"`       // of a sliding_window_log with one entry
	Entry    float64       `json:"bytes_per_log_entry"` // for each more
	Decision time.Duration `json:"cpu_ns_per_decision"` // of the store's server, or of this process
	Wire     float64       `json:"bytes_per_decision"`  // to and from the store
}

// Costs are what everything takes.
type Costs struct {
	Memory StoreCosts `json:"memory"`
	Redis  StoreCosts `json:"redis"`

	Gateway       time.Duration `json:"gateway_cpu_ns"`        // processor time of a node for a request that it forwards
	GatewayDenied time.Duration `json:"gateway_denied_cpu_ns"` // and for one that it denies
	Check         time.Duration `json:"check_cpu_ns"`          // for a request to the decision API

	Measured bool `json:"measured_here"` // memory or Redis were, now
}

// DefaultCosts returns what was measured on Redis 7.0.15 and amd64. Bytes of Redis are those by which
// used_memory grows, the entry in its table of keys and the allocator's rounding included; MEMORY USAGE
// says less, as it leaves those out. Processor times are of the benchmarks in the README.
func DefaultCosts() Costs {
	return Costs{
		Memory:  StoreCosts{Counter: 39, Log: 107, Entry: 32, Decision: 400 * time.Nanosecond},
		Redis:   StoreCosts{Counter: 165, Log: 302, Entry: 15, Decision: 6 * time.Microsecond, Wire: 120},
		Gateway: 58 * time.Microsecond, GatewayDenied: 20 * time.Microsecond, Check: 22 * time.Microsecond,
	}
}

// counter returns the bytes of one counter. A log has as many entries as its key has requests in a window,
// and never more than its limit.
func (s *StoreCosts) counter(a penstock.Algorithm, entries float64) float64 {
	if a == penstock.SlidingWindowLog {
		return s.Log + s.Entry*max(0, entries-1)
	}
	return s.Counter
}

// life is how long a counter is kept after its last request, in windows.
func life(a penstock.Algorithm) float64 {
	if a == penstock.SlidingWindowCounter {
		return 2 // the window before counts, too
	}
	return 1
}
