package config

import (
	"strings"
	"testing"
)

func TestEnvoySettings(t *testing.T) {
	const files = "rules: {envoy_ratelimit: /limits}\nlisten: {gateway: ''}\nkey_secret: 0123456789abcdef\n"
	for _, c := range []struct{ yaml, want string }{
		{files + "envoy: {quota_mode: true, negative_hits: true, request_id_key: request_id, response_headers: {enabled: true, limit: X-Limit}}\nmetrics: {compat: envoy_ratelimit, near_limit_ratio: 0.5, max_series: 10}", ""},
		{files + "store: {redis: {addresses: ['127.0.0.1:1']}, redis_per_second: {addresses: ['127.0.0.1:2']}}", ""},
		{files + "envoy: {response_headers: {limit: 'X Limit'}}", `envoy.response_headers.limit: "X Limit" is not the name of an HTTP header`},
		{files + "envoy: {response_headers: {reset: ''}}", `envoy.response_headers.reset: "" is not`},
		{files + "envoy: {request_id_key: " + strings.Repeat("k", 200) + "}", "envoy.request_id_key: 200 bytes, at most 125"},
		{files + "metrics: {near_limit_ratio: 2}", `metrics.near_limit_ratio: invalid ratio "2": must be from 0 to 1`},
		{files + "metrics: {near_limit_ratio: NaN}", "metrics.near_limit_ratio: invalid ratio"},
		{files + "metrics: {max_series: 0}", "metrics.max_series: 0 is not from 1 to 1000000"},
		{files + "store: {redis_per_second: {addresses: ['127.0.0.1:2']}}", "store.redis_per_second.addresses: requires"},
		{files + "store: {redis: {addresses: ['127.0.0.1:1']}, redis_per_second: {addresses: [nowhere]}}", `store.redis_per_second.addresses: "nowhere" is not host:port`},
		{strings.Replace(files, "/limits", "/limits, charge: together", 1) + "store: {redis: {addresses: ['127.0.0.1:1']}, redis_per_second: {addresses: ['127.0.0.1:2']}}", "two servers cannot charge a request atomically"},
		{"listen: {gateway: ''}\nenvoy: {quota_mode: true}", "envoy.quota_mode: requires rules.envoy_ratelimit"},
		{"listen: {gateway: ''}\nrules: {bans: true}", "rules.bans: requires rules.envoy_ratelimit"},
		{"listen: {gateway: ''}\nmetrics: {compat: envoy_ratelimit}", "metrics.compat: envoy_ratelimit requires rules.envoy_ratelimit"},
	} {
		_, err := load(t, c.yaml, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s\n%v\nwant %s", c.yaml, err, c.want)
		}
	}
}
