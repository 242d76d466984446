// Package grpcclient asks a remote Penstock over gRPC. It does what package client does over HTTP,
// which see, and is separate from it so that who asks over HTTP links no gRPC.
package grpcclient
