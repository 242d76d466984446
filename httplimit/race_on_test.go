//go:build race

package httplimit

// The race detector makes sync.Pool forget at random, to find more races.
const poolForgets = true
