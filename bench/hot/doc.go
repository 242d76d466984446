// Package hot measures the paths that keep load away from Redis, at engine.Decide, with the stores that
// internal/server puts around it: decisions that Redis makes, denials that a node repeats, and calls that
// are covered by permits; and what one hot key on several nodes costs Redis.
//
// It is separate as it has no peers: the reference is the exact decision, and the ceiling is the same
// script, sent as fast as Redis runs it.
package hot
