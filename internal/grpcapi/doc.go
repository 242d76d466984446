// Package grpcapi serves the decision API over gRPC: proto/penstock/v1.
//
// It is a door: it knows how calls arrive and nothing of how they are decided. It is separate from
// internal/api, the same in JSON, as the two share bounds and words (internal/wire) but no code: one
// checks what JSON can get wrong, the other what protobuf can.
package grpcapi
