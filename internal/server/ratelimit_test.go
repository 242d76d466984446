package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// ofUser returns a request about a user, with hits.
func ofUser(key, value string, hits uint32) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "mesh", HitsAddend: hits, Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
	}}
}

func (n *node) metricsText() string {
	n.t.Helper()
	_, text := n.get(n.url("admin", "/metrics"), "Authorization", "Bearer "+n.token)
	return text
}

// Dashboards made for envoyproxy/ratelimit find their metrics, next to ours.
func TestMetricsOfEnvoyRatelimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 10}}, {key: op, value: w, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 1}}]")
	n := startNode(t, nodetest.OnRedis("single", redistest.Start(t).Addr)+fmt.Sprintf("rules: {envoy_ratelimit: %q, poll_interval: 20ms}\nlisten: {gateway: ''}\nmetrics: {compat: envoy_ratelimit, near_limit_ratio: 0.5}", dir))
	nodetest.Eventually(t, "the node is connected to Redis", func() bool { return n.statusNow().Store.Connected })
	client := rlsv3.NewRateLimitServiceClient(n.rpc())
	for _, r := range []*rlsv3.RateLimitRequest{ofUser("user", "u", 7), ofUser("user", "u", 5), ofUser("user", "u", 2), ofUser("op", "w", 3), {Domain: "elsewhere", Descriptors: ofUser("user", "u", 1).Descriptors}} {
		if _, err := client.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	nodetest.WriteFile(t, file, "domain: mesh\ndescriptors: [{key: user}, {key: user}]")
	nodetest.Eventually(t, "the file is refused", func() bool { return strings.Contains(n.metricsText(), "ratelimit_service_config_load_error 1\n") })
	text := n.metricsText()
	for _, want := range []string{
		`ratelimit_service_rate_limit_total_hits\{domain="mesh",key1="user",key2=""\} 14`,
		`ratelimit_service_rate_limit_within_limit\{domain="mesh",key1="user",key2=""\} 7`,
		`ratelimit_service_rate_limit_near_limit\{domain="mesh",key1="user",key2=""\} 5`,
		`ratelimit_service_rate_limit_over_limit\{domain="mesh",key1="user",key2=""\} 4`,
		`ratelimit_service_rate_limit_over_limit_with_local_cache\{domain="mesh",key1="user",key2=""\} 2`,
		`ratelimit_service_rate_limit_shadow_mode\{domain="mesh",key1="op_w",key2=""\} 2`,
		`ratelimit_service_rate_limit_domain_not_found\{domain="elsewhere"\} 1`,
		`ratelimit_service_config_load_success 1`,
		`ratelimit_service_total_requests\{grpc_method="ShouldRateLimit"\} 5`,
		`ratelimit_service_response_time_seconds_count\{grpc_method="ShouldRateLimit"\} 5`,
		`ratelimit_service_should_rate_limit_error\{err_type="service_error"\} 0`,
		`ratelimit_service_global_shadow_mode 0`,
		`penstock_decision_duration_seconds_count [1-9]\d*`,
		`penstock_deny_cache_hits_total 1`,
		`penstock_deny_cache_entries [1-9]\d*`,
		`penstock_rules 2`,
		`penstock_rule_decisions_total\{quality="exact",result="allowed",rule="mesh.user"\} 1`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(text) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if t.Failed() {
		t.Log(regexp.MustCompile(`(?m)^(ratelimit|penstock_(rule|deny|dec)).*$`).FindAllString(text, -1))
	}
}

// Limits per second are counted in their own Redis; others are not.
func TestRedisPerSecond(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}, {key: op, rate_limit: {unit: second, requests_per_unit: 1000}}]")
	usual, perSecond := redistest.Start(t), redistest.Start(t)
	n := startNode(t, fmt.Sprintf("key_secret: 0123456789abcdef0123456789abcdef\nstore: {redis: {addresses: [%q], timeout: 20s}, redis_per_second: {addresses: [%q], timeout: 20s, key_prefix: 'ps:'}}\nrules: {envoy_ratelimit: %q}\nlisten: {gateway: ''}", usual.Addr, perSecond.Addr, dir))
	nodetest.Eventually(t, "the node is ready", func() bool { answer, _ := n.get(n.url("http", "/readyz")); return answer.StatusCode == http.StatusOK })
	client := rlsv3.NewRateLimitServiceClient(n.rpc())
	both := ofUser("user", "u", 1)
	both.Descriptors = append(both.Descriptors, ofUser("op", "w", 1).Descriptors...)
	both.Descriptors = append(both.Descriptors, ofUser("other", "w", 1).Descriptors...)
	for i, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT} {
		out, err := client.ShouldRateLimit(t.Context(), both)
		if err != nil {
			t.Fatal(err)
		}
		if out.OverallCode != want || out.Statuses[0].Code != want || out.Statuses[1].CurrentLimit.GetRequestsPerUnit() != 1000 || out.Statuses[2].CurrentLimit != nil {
			t.Errorf("request %d: %v", i, out)
		}
	}
	if err := usual.Kill(); err != nil {
		t.Fatal(err)
	}
	isLocal := func(r *rlsv3.RateLimitRequest) bool {
		out, err := client.ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return out.DynamicMetadata.GetFields()["penstock"].GetStructValue().GetFields()["quality"].GetStringValue() == "local"
	}
	if !isLocal(ofUser("user", "v", 1)) {
		t.Error("a limit per year is not counted in store.redis")
	}
	if isLocal(ofUser("op", "v", 1)) {
		t.Error("a limit per second is not counted in store.redis_per_second")
	}
}

// Operators find, reset and ban the keys of limits in files.
func TestKeysOfEnvoyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), `
domain: mesh
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: user, value: root, rate_limit: {unit: year, requests_per_unit: 5, name: root}}
  - {key: tenant, value: "t*", share_threshold: true, rate_limit: {unit: year, requests_per_unit: 1, name: tenants}}
  - key: op
    value: write
    descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1, name: writes}}]
`)
	for name, store := range map[string]string{"memory": "", "redis": nodetest.OnRedis("single", redistest.Start(t).Addr)} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, store+fmt.Sprintf("rules: {envoy_ratelimit: %q, bans: true}\nlisten: {gateway: ''}", dir))
			nodetest.Eventually(t, "the store decides", func() bool { return n.statusNow().Store.Connected })
			code := func(user string) rlsv3.RateLimitResponse_Code {
				t.Helper()
				out, err := rlsv3.NewRateLimitServiceClient(n.rpc()).ShouldRateLimit(t.Context(), ofUser("user", user, 1))
				if err != nil {
					t.Fatal(err)
				}
				return out.OverallCode
			}
			const ok, over = rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT
			if a, b, c := code("u"), code("u"), code("u"); a != ok || b != ok || c != over {
				t.Fatalf("got %v %v %v", a, b, c)
			}
			var shown admin.KeyStates
			if n.askAdmin("POST", "/v1/keys/show", `{"attributes": {"user": "u"}}`, &shown); len(shown.Keys) != 2 || shown.Keys[0].Rule != "mesh.user" || shown.Keys[0].Limits[0].Used != 3 || shown.Keys[1].Rule != "writes" {
				t.Errorf("shown: %+v", shown)
			}
			if n.askAdmin("POST", "/v1/keys/show", `{"attributes": {"user": "root"}}`, &shown); shown.Keys[0].Rule != "root" {
				t.Errorf("an exact value is before its key: %+v", shown)
			}
			if n.askAdmin("POST", "/v1/keys/show", `{"attributes": {"tenant": "t1"}}`, &shown); len(shown.Keys) != 1 || shown.Keys[0].Key["tenant"] != "t*" {
				t.Errorf("what is shared: %+v", shown)
			}
			var listed admin.Keys
			if n.askAdmin("GET", "/v1/keys?rule=mesh.user", "", &listed); len(listed.Keys) != 1 || listed.Keys[0].Key["user"] != "u" {
				t.Errorf("listed: %+v", listed)
			}
			var done admin.ChangeResult
			if n.askAdmin("POST", "/v1/keys/reset", `{"rule": "mesh.user", "attributes": {"user": "u"}}`, &done); len(done.Keys) != 1 || code("u") != ok {
				t.Errorf("after a reset the user is denied: %+v", done)
			}
			if n.askAdmin("POST", "/v1/bans", `{"rule": "mesh.user", "attributes": {"user": "u"}, "duration": "1h"}`, &done); len(done.Keys) != 1 || code("u") != over || code("v") != ok {
				t.Errorf("the wrong one is banned: %+v", done)
			}
			if n.askAdmin("DELETE", "/v1/bans", `{"rule": "mesh.user", "attributes": {"user": "u"}}`, &done); code("u") != ok {
				t.Errorf("denied after the ban was lifted: %+v", done)
			}
		})
	}
}

// The ports open when Redis has answered, or when the attempt has failed.
func TestPortsOpenAfterRedis(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]")
	redis := redistest.Start(t)
	yaml := nodetest.OnRedis("single", redis.Addr) + fmt.Sprintf("rules: {envoy_ratelimit: %q}\nlisten: {gateway: ''}", dir)
	if n := startNode(t, yaml); !n.statusNow().Store.Connected {
		t.Error("the ports are open and Redis, which serves, has not answered")
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := startNode(t, yaml); n.ready() != nil || n.asEnvoy("u") != http.StatusOK {
		t.Error("without Redis nothing is decided")
	}
}
