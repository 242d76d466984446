package main

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/xdstest"
)

// perUserByXDS is a limit for each user and unit.
func perUserByXDS(unit configv3.RateLimitUnit, requests uint32) *configv3.RateLimitConfig {
	return &configv3.RateLimitConfig{Name: "edge", Domain: "mesh", Descriptors: []*configv3.RateLimitDescriptor{
		{Key: "user", RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}},
	}}
}

// The program serves what a management server pushes, and after a restart without the server, too.
func TestServesLimitsFromXDS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	own, client := ca.Issue(t, "localhost"), ca.Issue(t, "penstock")
	pair, err := tls.LoadX509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	m := xdstest.Start(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: ca.Client(t).RootCAs, ClientAuth: tls.RequireAndVerifyClientCert})
	m.Push("edge", "1", perUserByXDS(configv3.RateLimitUnit_DAY, 1))
	dir := t.TempDir()
	file := filepath.Join(dir, "penstock.yaml")
	nodetest.WriteFile(t, file, fmt.Sprintf(`
data_dir: %q
listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0", gateway: ""}
rules: {xds: {server: %q, node_id: edge, tls: {enabled: true, ca: %q, certificate: %q, key: %q, server_name: localhost}}}
`, dir, m.Address, ca.File, client.Certificate, client.Key))
	pass := func(p *process, user string, want int) {
		t.Helper()
		if got := passed(t, p, user, want+1, insecure.NewCredentials()); got != want {
			t.Errorf("%d pass, want %d", got, want)
		}
	}
	p := startProcess(t, "serve", "--config", file)
	pass(p, "u", 1)
	m.Push("edge", "2", perUserByXDS(configv3.RateLimitUnit_DAY, 2))
	nodetest.Eventually(t, "version 2 is acknowledged", func() bool {
		acked, _ := m.Answers()
		return slices.Equal(acked, []string{"1", "2"})
	})
	pass(p, "v", 2)
	m.Stop()
	pass(p, "w", 2)
	p = startProcess(t, "serve", "--config", file)
	pass(p, "u", 2)
}
