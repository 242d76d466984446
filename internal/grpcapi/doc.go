// Package grpcapi serves the decision API over gRPC: proto/penstock/v1.
//
// It only translates requests and responses, and does not know how requests are decided. It is separate from
// internal/api, the same API in JSON. The two share bounds and wording (internal/wire) but no code: one checks for
// the errors that JSON allows, the other for those of protobuf.
package grpcapi
