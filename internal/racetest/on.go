//go:build race

package racetest

// Enabled reports whether the race detector is on. It makes sync.Pool drop items at random, so tests cannot count
// allocations.
const Enabled = true
