package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock/internal/certtest"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/xdstest"
)

// perUserByXDS is a limit for each user, of so many requests in a unit.
func perUserByXDS(unit configv3.RateLimitUnit, requests uint32) *configv3.RateLimitConfig {
	return &configv3.RateLimitConfig{Name: "edge", Domain: "mesh", Descriptors: []*configv3.RateLimitDescriptor{
		{Key: "user", RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}},
	}}
}

// The program serves what a management server pushes, and after a restart without the server, too.
func TestServesLimitsFromXDS(t *testing.T) {
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
	over := func(p *process, user string) bool {
		t.Helper()
		got, err := limitAs(t.Context(), p.addresses["grpc"], user, insecure.NewCredentials())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	p := startProcess(t, "serve", "--config", file)
	if over(p, "u") || !over(p, "u") {
		t.Error("one passes")
	}
	m.Push("edge", "2", perUserByXDS(configv3.RateLimitUnit_DAY, 2))
	nodetest.Eventually(t, "version 2 is acknowledged", func() bool {
		acked, _ := m.Answers()
		return slices.Equal(acked, []string{"1", "2"})
	})
	if over(p, "v") || over(p, "v") || !over(p, "v") {
		t.Error("two pass")
	}
	m.Stop()
	if over(p, "w") || over(p, "w") || !over(p, "w") {
		t.Error("without the server two pass")
	}
	p = startProcess(t, "serve", "--config", file)
	if over(p, "u") || over(p, "u") || !over(p, "u") {
		t.Error("after a restart without the server two pass")
	}
}

// A push that is refused shows wherever an operator looks.
func TestRefusedPushIsVisible(t *testing.T) {
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	m.Push("default", "1", perUserByXDS(configv3.RateLimitUnit_DAY, 1))
	source := fmt.Sprintf("rules: {xds: {server: %q}}\nadmin: {token: token-of-the-doctors-test}\n", m.Address)
	n := startNode(t, "listen: {gateway: ''}\n"+source)
	if first, second := n.asEnvoy("u"), n.asEnvoy("u"); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Errorf("one passes: %d, %d", first, second)
	}
	m.Push("default", "2", perUserByXDS(99, 1))
	nodetest.Eventually(t, "the server hears it", func() bool { _, nacked := m.Answers(); return len(nacked) > 0 })
	if now := n.statusNow().Rules; !strings.Contains(now.Refused, "invalid rate limit unit '99'") || !strings.Contains(now.Origin, m.Address) {
		t.Errorf("status %+v", now)
	}
	_, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+n.token)
	for _, want := range []string{"penstock_rules_refused 1\n", "penstock_rules_refusals_total 1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	report, _ := visit(t, source).examine("--listen-admin", n.admin.listener.Addr().String())
	if !strings.Contains(report, "invalid rate limit unit '99'") || !strings.Contains(report, "has refused newer ones") {
		t.Errorf("the doctor does not tell:\n%s", report)
	}
	if n.asEnvoy("v") != http.StatusOK || n.asEnvoy("v") != http.StatusTooManyRequests {
		t.Error("the old limits are not served on")
	}
}
