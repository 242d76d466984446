package config

import (
	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/internal/rls"
)

// checkEnvoy checks the settings for clients of envoyproxy/ratelimit.
func (l *loader) checkEnvoy() {
	c, e := l.config, &l.config.Envoy
	for _, h := range []struct{ path, name string }{
		{"envoy.response_headers.limit", e.LimitHeaders.Limit},
		{"envoy.response_headers.remaining", e.LimitHeaders.Remaining},
		{"envoy.response_headers.reset", e.LimitHeaders.Reset},
	} {
		if !httpguts.ValidHeaderFieldName(h.name) || len(h.name) > 128 {
			l.reportUnusable(h.path, "%.64q is not the name of an HTTP header of 1 to 128 bytes", h.name)
		}
	}
	if len(e.RequestID) > rls.MaxKey {
		l.reportUnusable("envoy.request_id_key", "%d bytes, at most %d", len(e.RequestID), rls.MaxKey)
	}
	if !c.Rules.IsEnvoy() {
		l.refuseEnvoyOnly()
	}
	if c.Metrics.MaxSeries < 1 || c.Metrics.MaxSeries > 1_000_000 {
		l.reportUnusable("metrics.max_series", "%d is not from 1 to 1000000", c.Metrics.MaxSeries)
	}
	switch {
	case len(c.Store.RedisPerSecond.Addresses) == 0:
	case !c.Rules.IsEnvoy() || !c.HasRedis():
		l.reportUnusable("store.redis_per_second.addresses", "requires rules.envoy_ratelimit or rules.xds, whose limits per second are counted there, and store.redis for the others")
	case c.Rules.Charge == "together":
		l.reportUnusable("store.redis_per_second.addresses", "two servers cannot charge a request atomically: choose another rules.charge than together")
	}
}

// refuseEnvoyOnly rejects settings that have no effect without limits of envoyproxy/ratelimit.
func (l *loader) refuseEnvoyOnly() {
	c := l.config
	if c.Envoy.Quota {
		l.reportUnusable("envoy.quota_mode", "requires rules.envoy_ratelimit or rules.xds: rules have no quota mode")
	}
	if c.Rules.Bans {
		l.reportUnusable("rules.bans", "requires rules.envoy_ratelimit or rules.xds: rules ban with a penalty of their own")
	}
	if c.Metrics.Compat == "envoy_ratelimit" {
		l.reportUnusable("metrics.compat", "envoy_ratelimit requires rules.envoy_ratelimit or rules.xds: limits of rules have no keys to be labels")
	}
}
