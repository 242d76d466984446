// Package plan estimates what a rate limiter of a given size needs: counters, memory, processors, network, nodes.
// The cost of a counter and a decision is measured, not assumed.
package plan

import (
	"time"

	"github.com/penstock-io/penstock"
)

// algorithms are those that plans support, in the order of the documentation.
var algorithms = []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket, penstock.LeakyBucket}

// StoreCosts are what a store needs.
type StoreCosts struct {
	Counter  float64       `json:"bytes_per_counter"`   // of every algorithm except the log, including the key
	Log      float64       `json:"bytes_per_log"`       // of a sliding_window_log with one entry
	Entry    float64       `json:"bytes_per_log_entry"` // for each further entry
	Decision time.Duration `json:"cpu_ns_per_decision"` // CPU time of the store's server, or of this process
	Wire     float64       `json:"bytes_per_decision"`  // to and from the store
}

// Costs are what each part needs.
type Costs struct {
	Memory StoreCosts `json:"memory"`
	Redis  StoreCosts `json:"redis"`

	Gateway       time.Duration `json:"gateway_cpu_ns"`        // CPU time of a node for a request that it forwards
	GatewayDenied time.Duration `json:"gateway_denied_cpu_ns"` // CPU time for one that it denies
	Check         time.Duration `json:"check_cpu_ns"`          // CPU time for a request to the decision API

	Measured bool `json:"measured_here"` // the costs of memory or Redis were measured now
}

// DefaultCosts returns what was measured on Redis 7.0.15 and amd64. Bytes in Redis are the growth of used_memory,
// including the entry in its key table and the allocator's rounding. MEMORY USAGE reports less, because it omits
// those. Processor times are those of the benchmarks in the README.
func DefaultCosts() Costs {
	return Costs{
		Memory:  StoreCosts{Counter: 39, Log: 107, Entry: 32, Decision: 400 * time.Nanosecond},
		Redis:   StoreCosts{Counter: 165, Log: 302, Entry: 15, Decision: 6 * time.Microsecond, Wire: 120},
		Gateway: 58 * time.Microsecond, GatewayDenied: 20 * time.Microsecond, Check: 22 * time.Microsecond,
	}
}

// counter returns the bytes of one counter. A log has one entry per request of its key in a window, up to its
// limit.
func (s *StoreCosts) counter(a penstock.Algorithm, entries float64) float64 {
	if a == penstock.SlidingWindowLog {
		return s.Log + s.Entry*max(0, entries-1)
	}
	return s.Counter
}

// lifetimeInWindows returns how long a counter is kept after its last request, in windows.
func lifetimeInWindows(a penstock.Algorithm) float64 {
	if a == penstock.SlidingWindowCounter {
		return 2 // the previous window counts, too
	}
	return 1
}
