package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/entitlement"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/traffic"
)

// Options configure metrics.
type Options struct {
	Traffic *traffic.Traffic
	State   func() State // of the node, at the time of the scrape

	// Cause returns the kind of a store error, out of few; nil: all are of one kind.
	Cause func(error) string

	Version, GoVersion string
}

// State is what a node knows about itself, apart from its requests. Counts are since the start. A nil part is one
// that the node does not have.
type State struct {
	Ready  bool
	Nodes  int
	Blocks int // in force

	Rules struct {
		Count   int
		Version int64
		Checked time.Time // zero: never
		Refused bool

		Refusals int64
	}

	Entitlements *Entitlements // nil: the node has no rules database

	Store  *Store // the shared one
	Memory *Memory
	Denied *DenyCacheStats
	Leases *Leases
	Late   *LateChargeStats
	Held   *HeldStats // nil: there is no gateway

	BodyWarnings map[string]int64 // bodies that cannot be read for rules, by reason

	RefusedLogins   map[string]int64 // of the admin API, by reason
	InvalidRequests map[string]int64 // from Envoy, by service

	Certificates map[string]Certificate // by listener

	RateLimit *RateLimit // nil: metrics of envoyproxy/ratelimit are off
}

// The states of parts that count for themselves.
type (
	Entitlements    = entitlement.Status
	Certificate     = listener.Status
	DenyCacheStats  = denycache.Stats
	Leases          = lease.Stats
	LateChargeStats = engine.LateStats    // charges that are made after an outage
	HeldStats       = httplimit.HeldStats // the requests that leaky buckets hold
)

// Store is the state of the shared store.
type Store struct {
	Up                                    bool
	Refused, Opened, RoundTrips, NoScript int64
	Unconfirmed, Dropped                  int64 // releases and settlements
	Cancelled                             int64 // requests whose client left before they were decided
	Losses                                int64 // of data that Redis had confirmed
}

// Memory is the state of the store in memory.
type Memory struct{ Keys, Shared, Bytes, Evicted, Refused int64 }

// Metrics are the metrics for Prometheus.
type Metrics struct {
	options  Options
	registry *prometheus.Registry

	decisions prometheus.Histogram
	store     *prometheus.HistogramVec
	errors    *prometheus.CounterVec
}

// New returns metrics.
func New(o Options) (*Metrics, error) {
	if o.Traffic == nil || o.State == nil {
		return nil, fmt.Errorf("new metrics: %w: they need traffic and a state", penstock.ErrInvalid)
	}
	if o.Cause == nil {
		o.Cause = func(error) string { return "any" }
	}
	timed := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: edges,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}
	}
	m := &Metrics{
		options: o, registry: prometheus.NewRegistry(),
		decisions: prometheus.NewHistogram(timed(decisionTimes, "How long decisions took. Of very many calls some are timed.")),
		store:     prometheus.NewHistogramVec(timed(storeTimes, "How long the store took. A call that was cut off at its deadline took longer than that."), []string{"call"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: storeErrors, Help: "Calls of the store that failed, by the kind of error.",
		}, []string{"call", "kind"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.decisions, m.store, m.errors, &collector{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		errs = append(errs, m.registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new metrics: %w", err)
	}
	return m, nil
}

// Handler returns the handler that Prometheus scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// decided records how long a decision took.
func (m *Metrics) decided(took time.Duration) {
	m.decisions.Observe(took.Seconds())
	m.options.Traffic.Took(took)
}

// answered records how long the store took. An operation that was cut off would have taken longer.
func (m *Metrics) answered(call string, took time.Duration, err error) {
	seconds := took.Seconds()
	if failed(err) {
		m.errors.WithLabelValues(call, m.options.Cause(err)).Inc()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		seconds += 1e-6 // the deadline is the upper edge of a bucket; this moves it to the next one
	}
	m.store.WithLabelValues(call).Observe(seconds)
	m.options.Traffic.StoreTook(took, failed(err))
}

// failed reports whether the store did not answer. An answer that something is impossible is not a failure, and neither
// is a client that did not wait for the answer.
func failed(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, penstock.ErrInvalid) && !errors.Is(err, penstock.ErrNoReservation) && !errors.Is(err, penstock.ErrClosed)
}
