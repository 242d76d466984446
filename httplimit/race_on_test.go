//go:build race

package httplimit

// The race detector makes sync.Pool drop items at random, to find more races.
const poolForgets = true
