package telemetry

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
)

// RateLimit is what the rate limit service counts, in the terms of envoyproxy/ratelimit. Only Stats count
// hits.
type RateLimit struct {
	Stats             *envoyratelimit.Stats
	Loaded, NotLoaded int64            // files
	Shadowed          int64            // requests allowed because of the global shadow mode
	Errors            map[string]int64 // requests, by type
}

// The names that envoyproxy/ratelimit's mapping for the statsd exporter gives to its statistics. Names that it does
// not map follow the same pattern: over_limit_with_local_cache, total_negative_hits, domain_not_found.
var (
	hitsTotal     = describeHits("total_hits", "Hits.")
	hitsWithin    = describeHits("within_limit", "Hits within the limit.")
	hitsNear      = describeHits("near_limit", "Hits near the limit.")
	hitsOver      = describeHits("over_limit", "Hits over the limit.")
	hitsCached    = describeHits("over_limit_with_local_cache", "Hits over the limit that were denied from memory.")
	hitsShadow    = describeHits("shadow_mode", "Hits over limits in shadow mode.")
	hitsNegative  = describeHits("total_negative_hits", "Hits given back.")
	unknownDomain = prometheus.NewDesc("ratelimit_service_rate_limit_domain_not_found", "Descriptors of domains that no file has.", []string{"domain"}, nil)
	filesLoaded   = prometheus.NewDesc("ratelimit_service_config_load_success", "Times that files were loaded.", nil, nil)
	filesRefused  = prometheus.NewDesc("ratelimit_service_config_load_error", "Times that files were refused.", nil, nil)
	globalShadow  = prometheus.NewDesc("ratelimit_service_global_shadow_mode", "Requests that passed because of the global shadow mode.", nil, nil)
	serviceErrors = prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Requests answered with an error.", []string{"err_type"}, nil)
)

func describeHits(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

func (c *collector) rateLimit(out sender, r *RateLimit) {
	r.Stats.Each(func(l envoyratelimit.Labels, hits *envoyratelimit.Series) {
		for name, counter := range map[*prometheus.Desc]*atomic.Int64{
			hitsTotal: &hits.TotalHits, hitsWithin: &hits.WithinLimit, hitsNear: &hits.NearLimit, hitsOver: &hits.OverLimit,
			hitsCached: &hits.OverLimitWithLocalCache, hitsShadow: &hits.ShadowMode, hitsNegative: &hits.TotalNegativeHits,
		} {
			if n := counter.Load(); n > 0 { // as with statsd: a count of 0 is not exported
				out.count(name, n, utf8Label(l.Domain), utf8Label(l.Key1), utf8Label(l.Key2))
			}
		}
	})
	for domain, n := range r.Stats.UnknownDomains() {
		out.count(unknownDomain, n, utf8Label(domain))
	}
	for kind, n := range r.Errors {
		out.count(serviceErrors, n, kind)
	}
	out.count(filesLoaded, r.Loaded)
	out.count(filesRefused, r.NotLoaded)
	out.count(globalShadow, r.Shadowed)
}

// utf8Label returns text that is valid in a label.
func utf8Label(text string) string { return strings.ToValidUTF8(text, "!") }

// RateLimitTimes returns an interceptor that times requests to the rate limit service, under the names of
// envoyproxy/ratelimit.
func (m *Metrics) RateLimitTimes() (grpc.UnaryServerInterceptor, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ratelimit_service_total_requests", Help: "Requests."}, []string{"grpc_method"})
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ratelimit_service_response_time_seconds", Help: "How long requests took.", Buckets: prometheus.DefBuckets,
	}, []string{"grpc_method"})
	for _, c := range []prometheus.Collector{requests, times} {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	const method = "ShouldRateLimit"
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if !strings.HasSuffix(info.FullMethod, "/"+method) {
			return handle(ctx, request)
		}
		began := time.Now()
		requests.WithLabelValues(method).Inc()
		response, err := handle(ctx, request)
		times.WithLabelValues(method).Observe(time.Since(began).Seconds())
		return response, err
	}, nil
}
