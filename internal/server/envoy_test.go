package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/rls"
)

const oneUser = `{"domain": "mesh", "descriptors": [{"entries": [{"key": "user", "value": "%s"}]}]}`

// asEnvoy sends a JSON request, and returns the status.
func (n *node) asEnvoy(user string) int {
	n.t.Helper()
	answer, _ := n.send(http.MethodPost, n.url("http", "/json"), fmt.Sprintf(oneUser, user), "Content-Type", "application/json")
	return answer.StatusCode
}

func (n *node) rpc() *grpc.ClientConn {
	n.t.Helper()
	conn, err := grpc.NewClient(n.endpoint("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

func TestServesFilesOfEnvoy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	write("domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]")
	n := startNode(t, fmt.Sprintf("rules: {envoy_ratelimit: %q, poll_interval: 20ms}\nlisten: {gateway: ''}\nenvoy: {health_services: [limits.of.ours]}", filepath.Dir(file)))

	if first, second := n.asEnvoy("u"), n.asEnvoy("u"); first != http.StatusOK || second != http.StatusTooManyRequests {
		t.Errorf("one passes: %d, %d", first, second)
	}
	r, err := rlsv3.NewRateLimitServiceClient(n.rpc()).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
		Domain: "mesh", Descriptors: []*descriptorv3.RateLimitDescriptor{{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "user", Value: "u"}}}},
	})
	if err != nil || r.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT || r.Statuses[0].CurrentLimit.Unit != rlsv3.RateLimitResponse_RateLimit_YEAR {
		t.Errorf("over gRPC it is the same counter: %v, %v", r, err)
	}
	for _, service := range append([]string{"", "ratelimit", "limits.of.ours"}, rls.Services...) {
		h, err := grpc_health_v1.NewHealthClient(n.rpc()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %s: %v, %v", service, h, err)
		}
	}

	nodetest.Eventually(t, "a denial is logged", func() bool { return strings.Contains(n.log.String(), `"rule":"mesh.user","reason":"over_limit"`) })

	write("domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: fortnight}}]")
	nodetest.Eventually(t, "a mistake is logged", func() bool { return strings.Contains(n.log.String(), "invalid rate limit unit 'fortnight'") })
	write("domain: mesh\ndescriptors: [{key: user, rate_limit: {unlimited: true}}]")
	nodetest.Eventually(t, "the new file is served", func() bool { return n.asEnvoy("u") == http.StatusOK })
}

func TestServesEnvoyByRules(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("rules: [{name: one, match: {domain: mesh}, key: [user], limits: [1/1d]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, fmt.Sprintf("rules: {file: %q}\nlisten: {gateway: ''}", file))
	if first, second, other := n.asEnvoy("u"), n.asEnvoy("u"), n.asEnvoy("v"); first != http.StatusOK || second != http.StatusTooManyRequests || other != http.StatusOK {
		t.Errorf("one passes of each: %d, %d, %d", first, second, other)
	}
}

// A long value is counted like any other. A request that cannot be counted is rejected, and the metrics and the
// log report it, because Envoy may let such a request pass.
func TestInvalidRequestsOfEnvoyAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte("domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, fmt.Sprintf("rules: {envoy_ratelimit: %q}\nlisten: {gateway: ''}", dir))
	long := strings.Repeat("u", 9000)
	if first, second, other := n.asEnvoy(long), n.asEnvoy(long), n.asEnvoy(long+"v"); first != http.StatusOK || second != http.StatusTooManyRequests || other != http.StatusOK {
		t.Errorf("one passes of each long value: %d, %d, %d", first, second, other)
	}
	for _, body := range []string{
		"{", `{"descriptors": [{"entries": [{"key": "user"}]}]}`,
		`{"domain": "mesh", "descriptors": [{"entries": [{"key": "user"}], "isNegativeHits": true}]}`,
	} {
		if answer, _ := n.send(http.MethodPost, n.url("http", "/json"), body, "Content-Type", "application/json"); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", body, answer.Status)
		}
	}
	if _, err := authv3.NewAuthorizationClient(n.rpc()).Check(t.Context(), &authv3.CheckRequest{}); err == nil {
		t.Error("a check without a request is decided")
	}
	_, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+n.token)
	for service, want := range map[string]int{"ratelimit": 3, "authorization": 1} {
		if want := fmt.Sprintf("penstock_invalid_requests_total{service=%q} %d\n", service, want); !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
		if logged := fmt.Sprintf(`"msg":"invalid request from Envoy","listener":"envoy","service":%q`, service); strings.Count(n.log.String(), logged) != 1 {
			t.Errorf("the log has not exactly one %s:\n%s", logged, n.log.String())
		}
	}
}

// Health checks made for envoyproxy/ratelimit get the answers that they expect.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	if answer, body := n.get(n.url("http", "/healthcheck"), "Host", "probe.of.a.mesh"); answer.StatusCode != http.StatusOK || body != "OK" {
		t.Errorf("%s %q", answer.Status, body)
	}
	n.draining.Store(true)
	if answer, body := n.get(n.url("http", "/healthcheck")); answer.StatusCode != http.StatusInternalServerError || body != "stopping\n" {
		t.Errorf("stopping: %s %q", answer.Status, body)
	}
}

// A file that is rejected while the server runs is visible wherever an operator looks.
func TestRefusedFilesOfEnvoyAreVisible(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-doctors-test"
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]")
	source := fmt.Sprintf("rules: {envoy_ratelimit: %q, poll_interval: 20ms}\nadmin: {token: %s}\n", dir, token)
	n := startNode(t, "listen: {gateway: ''}\n"+source)
	for i, unit := range []string{"fortnight", "moment"} {
		nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: "+unit+"}}]")
		nodetest.Eventually(t, "the status tells", func() bool {
			return strings.Contains(n.statusNow().Rules.Refused, "invalid rate limit unit '"+unit+"'")
		})
		_, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+token)
		for _, want := range []string{"penstock_rules_refused 1\n", fmt.Sprintf("penstock_rules_refusals_total %d\n", i+1)} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the metrics lack %s", unit, want)
			}
		}
	}
	if n.asEnvoy("u") != http.StatusOK || n.asEnvoy("u") != http.StatusTooManyRequests {
		t.Error("the old file is not served on")
	}
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unlimited: true}}]")
	nodetest.Eventually(t, "the status is clean", func() bool { return n.statusNow().Rules.Refused == "" })
	if _, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+token); !strings.Contains(text, "penstock_rules_refused 0\n") {
		t.Error("the metrics tell of a refusal that is over")
	}
}

// Limits in files that are not read are reported.
func TestIgnoredFilesOfEnvoy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"limits.yaml", "config", ".hidden"} {
		nodetest.WriteFile(t, filepath.Join(dir, name), "domain: mesh"+name)
	}
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, fmt.Sprintf("listen: {gateway: ''}\nrules: {envoy_ratelimit: %q}\n", dir))
	if !strings.Contains(n.log.String(), `"ignored":["config","more"]`) {
		t.Errorf("the log does not tell:\n%s", n.log)
	}
}

// Limits of the same name share a series: a scrape must not fail for them.
func TestLimitsOfTheSameNameInMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), `
domain: mesh
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, name: same}}
  - {key: user, value: v, rate_limit: {unit: year, requests_per_unit: 2, name: same}}
`)
	n := startNode(t, fmt.Sprintf("rules: {envoy_ratelimit: %q}\nlisten: {gateway: ''}", dir))
	for user, want := range map[string]int{"u": http.StatusTooManyRequests, "v": http.StatusOK} {
		if first, second := n.asEnvoy(user), n.asEnvoy(user); first != http.StatusOK || second != want {
			t.Errorf("%s: %d, %d", user, first, second)
		}
	}
	answer, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+n.token)
	if want := `penstock_rule_decisions_total{quality="exact",result="allowed",rule="same"} 3` + "\n"; answer.StatusCode != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("%s: the metrics lack %s:\n%s", answer.Status, want, text)
	}
}
