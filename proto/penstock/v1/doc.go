// Package penstockv1 is the decision API over gRPC, generated from decisions.proto by scripts/generate.
//
// It is separate from internal/grpcapi, which serves it, and client/grpcclient, which calls it, so
// that neither links the other. It is public so that others can write their own clients.
package penstockv1
