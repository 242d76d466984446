package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/xdstest"
)

// perUserByXDS is a limit for each user and unit.
func perUserByXDS(unit configv3.RateLimitUnit, requests uint32) *configv3.RateLimitConfig {
	return &configv3.RateLimitConfig{Name: "edge", Domain: "mesh", Descriptors: []*configv3.RateLimitDescriptor{
		{Key: "user", RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: requests}},
	}}
}

// A rejected push shows in the status and the metrics, and the earlier limits stay.
func TestRefusedPushIsVisible(t *testing.T) {
	t.Parallel()
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
	if n.asEnvoy("v") != http.StatusOK || n.asEnvoy("v") != http.StatusTooManyRequests {
		t.Error("the old limits are not served on")
	}
}
