package doctor

import (
	"fmt"
	"strings"
	"testing"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/penstock-io/penstock/internal/xdstest"
)

// The doctor asks the management server, and reads its limits as the server does.
func TestDoctorOnXDS(t *testing.T) {
	t.Parallel()
	m := xdstest.Start(t, "127.0.0.1:0", nil)
	b := visit(t, fmt.Sprintf("rules: {xds: {server: %q}}\n", m.Address))
	push := func(version string, unit configv3.RateLimitUnit) {
		m.Push("default", version, &configv3.RateLimitConfig{Name: "edge", Domain: "mesh", Descriptors: []*configv3.RateLimitDescriptor{
			{Key: "user", RateLimit: &configv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: 1}},
		}})
	}
	push("1", configv3.RateLimitUnit_DAY)
	if text, _ := b.examine(); !strings.Contains(text, fmt.Sprintf("xDS server %s (node default): 1 rule", m.Address)) {
		t.Errorf("got\n%s", text)
	}
	b.keepCopy("xds.last-good", "xDS")
	if text, _ := b.examine(); !strings.Contains(text, "! last good      "+b.dir+"/xds.last-good has version 1") {
		t.Errorf("got\n%s", text)
	}
	push("2", 99)
	if text, code := b.examine(); code != Unhealthy || !strings.Contains(text, "edge:") || !strings.Contains(text, "invalid rate limit unit '99'") {
		t.Errorf("outcome %d\n%s", code, text)
	}
}
