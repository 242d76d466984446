// Package envoy measures our rate limit service for Envoy beside envoyproxy/ratelimit: the same file
// of limits, the same questions over gRPC, a Redis each. Both are checked to let exactly the limit
// pass before anything is measured, and every answer that counts is one that was expected.
//
// The peer is a module of its own, in ratelimit/: only its program is used.
package envoy
