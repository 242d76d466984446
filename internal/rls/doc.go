// Package rls serves Envoy's protocols: the rate limit service v3, over gRPC and as JSON, and external authorization
// v3.
//
// It validates requests strictly, passes them to a [Limiter] and formats the answers for Envoy. It is separate from
// internal/grpcapi, which serves Penstock's own protocol and does not link Envoy's packages.
package rls
