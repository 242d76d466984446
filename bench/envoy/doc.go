// Package envoy compares our rate limit service for Envoy with envoyproxy/ratelimit: the same limits file, the
// same gRPC requests, a separate Redis each. It verifies that both allow exactly the limit before it measures,
// and counts only expected answers.
//
// The peer is a separate module, in ratelimit/: only its program is used.
package envoy
