// Package rls serves what Envoy asks: its rate limit service v3, over gRPC and as JSON, and its
// external authorization v3.
//
// It is a door: it reads requests strictly, hands them to a [Limiter] and says the answers as Envoy
// wants to hear them. It is separate from internal/grpcapi, as that speaks our own protocol and
// links nothing of Envoy's.
package rls
