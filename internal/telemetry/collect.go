package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
)

// A collector makes metrics from counts kept elsewhere, when they are scraped.
type collector struct{ *Metrics }

// Describe sends nothing, which makes the collector an unchecked one: its metrics depend on the parts of the node.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current value of every metric.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	out := sender(to)
	c.calls(out)
	s := c.options.State()
	out.gauge(ready, boolValue(s.Ready))
	out.gauge(nodes, float64(s.Nodes))
	out.gauge(blocksInForce, float64(s.Blocks))
	out.gauge(rulesCount, float64(s.Rules.Count))
	out.gauge(rulesVersion, float64(s.Rules.Version))
	out.gauge(rulesRefused, boolValue(s.Rules.Refused))
	out.count(rulesRefusals, s.Rules.Refusals)
	if !s.Rules.Checked.IsZero() {
		out.gauge(rulesAge, float64(s.Rules.Checked.UnixMilli())/1000)
	}
	if s.Entitlements != nil {
		out.gauge(entitlements, float64(s.Entitlements.Rows))
		if !s.Entitlements.Read.IsZero() {
			out.gauge(entitlementsRead, float64(s.Entitlements.Read.UnixMilli())/1000)
		}
	}
	for why, n := range s.RefusedLogins {
		out.count(loginsRefused, n, why)
	}
	for service, n := range s.InvalidRequests {
		out.count(refusedInput, n, service)
	}
	for reason, n := range s.BodyWarnings {
		out.count(bodyWarnings, n, reason)
	}
	for listener, tls := range s.Certificates {
		out.gauge(tlsNotAfter, float64(tls.NotAfter.Unix()), listener)
		out.count(tlsReloads, tls.Reloads, listener)
		out.count(tlsRefusals, tls.Refusals, listener)
	}
	out.gauge(buildInfo, 1, c.options.Version, c.options.GoVersion)
	c.stores(out, &s)
	if s.RateLimit != nil {
		c.rateLimit(out, s.RateLimit)
	}
	if s.Held != nil {
		out.gauge(heldRequests, float64(s.Held.Requests))
		out.gauge(heldBytes, float64(s.Held.Bytes))
		for rule, n := range s.Held.Refused {
			out.count(heldRefused, n, rule)
		}
	}
}

func (c *collector) calls(out sender) {
	totals := c.options.Traffic.Totals()
	for r := range totals.Decisions {
		for q := range totals.Decisions[r] {
			for allowed, n := range totals.Decisions[r][q] {
				if n > 0 {
					out.count(decisions, n, [...]string{"denied", "allowed"}[allowed], penstock.Reason(r).String(), penstock.Quality(q).String())
				}
			}
		}
	}
	out.count(shadowed, totals.Shadow)
	out.count(invalid, totals.Invalid)
	out.count(leftOut, totals.Beyond)
	c.options.Traffic.Rules(func(rule string, of *traffic.RuleTotals) {
		for r := range of.Decisions {
			for q, n := range of.Decisions[r] {
				if n > 0 {
					out.count(ruled, n, rule, traffic.Result(r).String(), penstock.Quality(q).String())
				}
			}
		}
		if of.Failures > 0 {
			out.count(ruleFailures, of.Failures, rule)
		}
		for reason, n := range of.Fallbacks {
			if n > 0 {
				out.count(numberFallbacks, n, rule, rules.FallbackReason(reason).String())
			}
		}
	})
}

func (c *collector) stores(out sender, s *State) {
	if s.Store != nil {
		out.gauge(storeUp, boolValue(s.Store.Up))
		out.count(storeRefused, s.Store.Refused)
		out.count(storeOpened, s.Store.Opened)
		out.count(storeLosses, s.Store.Losses)
		out.count(roundTrips, s.Store.RoundTrips)
		out.count(scriptsSent, s.Store.NoScript)
		out.gauge(unconfirmed, float64(s.Store.Unconfirmed))
		out.count(unconcluded, s.Store.Dropped)
		out.count(cancelled, s.Store.Cancelled)
	}
	if s.Memory != nil {
		out.gauge(memoryKeys, float64(s.Memory.Keys))
		out.gauge(memoryBytes, float64(s.Memory.Bytes))
		out.gauge(memoryShared, float64(s.Memory.Shared))
		out.count(memoryEvicted, s.Memory.Evicted)
		out.count(memoryRefused, s.Memory.Refused)
	}
	if s.Denied != nil {
		out.count(denyHits, s.Denied.Hits)
		out.gauge(denyEntries, float64(s.Denied.Entries))
	}
	if s.Late != nil {
		out.gauge(lateWaiting, float64(s.Late.Waiting))
		out.count(lateCharged, s.Late.Charged)
		out.count(lateDropped, s.Late.Dropped)
	}
	if s.Leases != nil {
		out.count(leasedCalls, s.Leases.Leased, "permits")
		out.count(leasedCalls, s.Leases.Exact, "store")
		out.count(leasePermits, s.Leases.Permits)
		out.count(leaseExpired, s.Leases.Expired)
	}
}

type sender chan<- prometheus.Metric

func (s sender) count(d *prometheus.Desc, n int64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (s sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
