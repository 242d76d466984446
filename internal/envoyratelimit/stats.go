package envoyratelimit

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
)

// StatsOptions configure statistics.
type StatsOptions struct {
	NearLimit float32 // fraction of a limit from which hits count as near
	Cached    bool    // denials from memory are also counted as OverLimitWithLocalCache
	MaxSeries int     // labels that are counted separately; hits under further ones count under Other
}

// Other is the domain and key under which hits count once there are too many labels.
const Other = "other"

// Labels are what envoyproxy/ratelimit's mapping for Prometheus makes of the name of a statistic: its first three
// parts. The name is the domain, keys and values, separated by dots.
type Labels struct{ Domain, Key1, Key2 string }

// Stats are the statistics of envoyproxy/ratelimit. They count hits, not requests. A nil *Stats counts nothing.
type Stats struct {
	options StatsOptions

	mu      sync.RWMutex
	series  map[Labels]*Series
	unknown map[string]*atomic.Int64 // domains
}

// A Series counts the hits under one limit, or under several that share their labels.
type Series struct {
	TotalHits, WithinLimit, NearLimit, OverLimit, OverLimitWithLocalCache, ShadowMode, TotalNegativeHits atomic.Int64
}

// NewStats returns empty statistics.
func NewStats(o StatsOptions) *Stats {
	return &Stats{options: o, series: map[Labels]*Series{}, unknown: map[string]*atomic.Int64{}}
}

// Each calls do for every series.
func (s *Stats) Each(do func(Labels, *Series)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for labels, series := range s.series {
		do(labels, series)
	}
}

// UnknownDomains returns the number of descriptors for each domain that is in no file.
func (s *Stats) UnknownDomains() map[string]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := make(map[string]int64, len(s.unknown))
	for domain, n := range s.unknown {
		counts[domain] = n.Load()
	}
	return counts
}

// entry returns the entry of a map for a key, and adds it if there is room. Otherwise it returns the one for other.
func entry[K comparable, V any](s *Stats, m map[K]*V, key, other K) *V {
	s.mu.RLock()
	found := m[key]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m[key] == nil && len(m) >= s.options.MaxSeries {
		key = other
	}
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// of returns the series for the name of a statistic.
func (s *Stats) of(name string) *Series {
	return entry(s, s.series, labelsOf(name), Labels{Domain: Other, Key1: Other})
}

func labelsOf(name string) Labels {
	var parts [4]string
	copy(parts[:], strings.SplitN(sanitize(name), ".", len(parts)))
	return Labels{parts[0], parts[1], parts[2]}
}

// count counts a decided request. It counts the costs that the descriptors ask for, whether or not they were charged.
func (s *Stats) count(c *Config, r *rls.Request, limits []*limit, parts []engine.Part) {
	if s == nil {
		return
	}
	if c != nil && c.domains[r.Domain] == nil {
		entry(s, s.unknown, sanitize(r.Domain), Other).Add(int64(len(r.Descriptors)))
		return
	}
	for i, limit := range limits {
		if parts[i].Rule == nil {
			continue
		}
		d, series := &r.Descriptors[i], limit.series(s, r.Domain, r.Descriptors[i].Entries)
		if d.Refund {
			series.TotalNegativeHits.Add(d.Cost)
			continue
		}
		series.TotalHits.Add(d.Cost)
		if told := parts[i].Verdict.Limits; len(told) > 0 {
			series.count(d.Cost, told[0].Used, limit.count, limit.nearLimit(s.options.NearLimit), s.options.Cached && parts[i].Cached, limit.shadow)
		}
	}
}

// nearLimit returns how many hits are not yet near the limit, with the arithmetic of envoyproxy/ratelimit.
func (l *limit) nearLimit(ratio float32) int64 {
	return int64(math.Floor(float64(float32(l.count) * ratio)))
}

// series returns the series of the limit. It is cached unless it depends on the request.
func (l *limit) series(s *Stats, domain string, entries []penstock.Attribute) *Series {
	if l.way != nil && !l.isByValue {
		if known := l.counted.Load(); known != nil {
			return known
		}
		found := s.of(l.path)
		l.counted.Store(found)
		return found
	}
	return s.of(l.statName(domain, entries))
}

// count counts hits under a limit; used includes them. If hits cross a threshold, those beyond it count as near or
// over the limit.
func (s *Series) count(hits, used, limit, near int64, cached, shadow bool) {
	before, over := max(0, used-hits), int64(0)
	switch {
	case cached:
		over = hits
		s.OverLimitWithLocalCache.Add(hits)
	case used <= limit:
		s.WithinLimit.Add(hits)
		s.NearLimit.Add(max(0, used-max(near, before)))
		return
	case before >= limit:
		over = hits
	default:
		over = used - limit
		s.NearLimit.Add(limit - max(near, before))
	}
	s.OverLimit.Add(over)
	if shadow {
		s.ShadowMode.Add(over)
	}
}
