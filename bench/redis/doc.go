// Package redis measures limiters that keep their state in Redis at full speed: decisions a
// second, what callers wait, what a decision costs the server's processor, and what a key costs
// its memory.
//
// It is separate from package remote, which knows the contestants, because here is decided what
// is asked of them and what counts as a good answer.
package redis
