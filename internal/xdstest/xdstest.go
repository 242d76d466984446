// Package xdstest runs a management server of go-control-plane for tests.
package xdstest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// A Manager is a management server of go-control-plane.
type Manager struct {
	t       testing.TB
	cache   cache.SnapshotCache
	Address string
	serving *grpc.Server

	mu      sync.Mutex
	nodes   []*corev3.Node
	headers []metadata.MD
	acked   []string // versions
	nacked  []string // versions and why
}

// Start serves at an address, over TLS if secure is not nil, until the test ends.
func Start(t testing.TB, address string, secure *tls.Config) *Manager {
	t.Helper()
	m := &Manager{t: t, cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	m.Address = l.Addr().String()
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	m.serving = grpc.NewServer(options...)
	sent := map[string]string{} // version by nonce
	xds := server.NewServer(context.Background(), m.cache, server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			md, _ := metadata.FromIncomingContext(ctx)
			m.headers = append(m.headers, md)
			return nil
		},
		StreamResponseFunc: func(_ context.Context, stream int64, _ *discoveryv3.DiscoveryRequest, r *discoveryv3.DiscoveryResponse) {
			m.mu.Lock()
			defer m.mu.Unlock()
			sent[fmt.Sprint(stream, " ", r.Nonce)] = r.VersionInfo
		},
		StreamRequestFunc: func(stream int64, r *discoveryv3.DiscoveryRequest) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			version := sent[fmt.Sprint(stream, " ", r.ResponseNonce)]
			switch {
			case r.ResponseNonce == "":
				m.nodes = append(m.nodes, r.Node)
			case r.ErrorDetail != nil:
				m.nacked = append(m.nacked, version+": "+r.ErrorDetail.Message)
			default:
				m.acked = append(m.acked, version)
			}
			return nil
		},
	})
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(m.serving, xds)
	served := make(chan error, 1)
	go func() { served <- m.serving.Serve(l) }()
	t.Cleanup(func() {
		m.serving.Stop()
		<-served
	})
	return m
}

// Push makes these configurations the version that a node is to have.
func (m *Manager) Push(node, version string, configs ...*configv3.RateLimitConfig) {
	m.t.Helper()
	resources := make([]types.Resource, len(configs))
	for i, c := range configs {
		resources[i] = c
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.cache.SetSnapshot(m.t.Context(), node, snapshot); err != nil {
		m.t.Fatal(err)
	}
}

// Answers returns the versions that were accepted, and those that were refused.
func (m *Manager) Answers() (acked, nacked []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.acked...), append([]string(nil), m.nacked...)
}

// Stop closes all connections.
func (m *Manager) Stop() { m.serving.Stop() }

// Clients returns the nodes that have opened a stream, and the headers they sent.
func (m *Manager) Clients() ([]*corev3.Node, []metadata.MD) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes, m.headers
}
