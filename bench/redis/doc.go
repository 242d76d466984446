// Package redis measures limiters that keep their state in Redis at full speed: decisions per second, latency,
// the server's processor time per decision, and its memory per key.
//
// It is separate from package remote, which defines the contestants, because it defines the load and the goals.
package redis
