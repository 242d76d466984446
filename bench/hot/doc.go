// Package hot measures the paths that keep load away from Redis, at engine.Decide, with the stores that
// internal/server puts around it: decisions by Redis, denials from a node's deny cache, and requests covered by
// leases. It also measures what one hot key on several nodes costs Redis.
//
// It is separate because it has no peers: the reference is the exact decision.
package hot
