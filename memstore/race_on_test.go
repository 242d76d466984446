//go:build race

package memstore

// The race detector makes sync.Pool drop items at random, to find more races.
const poolForgets = true
