// Package grpcclient asks a remote Penstock over gRPC. See package client, which does the same over HTTP;
// this one is separate so that programs that use HTTP do not link gRPC.
package grpcclient
