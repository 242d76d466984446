package traffic

import (
	"cmp"
	"slices"
	"time"
)

// Stats are the counts of a period.
type Stats struct {
	From, To time.Time
	Step     time.Duration // of the series

	Total  Counts
	Series []Counts
	Rules  []RuleStats // rules with requests, most denied first

	// Latency is that of decisions, since the last multiple of five minutes before From.
	Latency Latency
}

// RuleStats are the counts of one rule.
type RuleStats struct {
	Rule   string
	Total  Counts
	Series []Counts // none if there are too many rules

	// DistinctKeys and Top are of the clients since the last multiple of five minutes before From; empty if there are
	// too many rules.
	DistinctKeys int64
	Top          []KeyStats // denied clients
}

// Latency is how long decisions took.
type Latency struct{ P50, P99, P999 time.Duration }

// shownKeys is how many clients of a rule are listed.
const shownKeys = 10

// points is the maximum length of a series.
const points = 120

// Stats returns the counts of the last period of this length, at most [Reach].
func (t *Traffic) Stats(last time.Duration) Stats {
	last = min(max(last, fine), Reach)
	t.collect(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	step := stepFor(last)
	slots := int64(last / step * step / fine)
	to := fineSlot(h.now) + 1
	s := Stats{From: time.Unix(0, (to-slots)*int64(fine)).UTC(), To: h.now.UTC(), Step: step}
	s.Series, s.Total = sum(&h.series, to, slots, step)
	from := max(coarseSlot(s.From), coarseSlot(h.now)-coarses+1)
	for name, r := range h.rules {
		if r.series == nil {
			continue
		}
		found := RuleStats{Rule: name}
		if found.Series, found.Total = sum(r.series, to, slots, step); found.Total == (Counts{}) {
			continue
		}
		if r.callers != nil {
			found.Top, found.DistinctKeys = r.met(from, coarseSlot(h.now))
		}
		s.Rules = append(s.Rules, found)
	}
	slices.SortFunc(s.Rules, func(a, b RuleStats) int {
		return cmp.Or(cmp.Compare(b.Total.Denied+b.Total.Shadow, a.Total.Denied+a.Total.Shadow), cmp.Compare(a.Rule, b.Rule))
	})
	s.Latency = h.latency(from)
	return s
}

// stepFor returns the smallest step with which a series over the period has at most points points.
func stepFor(last time.Duration) time.Duration {
	for _, step := range []time.Duration{fine, 10 * time.Second, 15 * time.Second} {
		if last <= points*step {
			return step
		}
	}
	return 30 * time.Second
}

// sum adds up the slots before to: by step, and in total.
func sum(series *[fines]Counts, to, slots int64, step time.Duration) (points []Counts, total Counts) {
	width := int64(step / fine)
	points = make([]Counts, slots/width)
	for i := range slots {
		c := series[(to-slots+i)%fines]
		points[i/width].add(c)
		total.add(c)
	}
	return points, total
}

// met returns the most denied clients of some slots, and the number of distinct clients.
func (r *ruleHistory) met(from, to int64) (most []KeyStats, distinct int64) {
	all := newSketch()
	var tops []*top
	for slot := from; slot <= to; slot++ {
		c := &r.callers[slot%coarses]
		if c.distinct != nil {
			_ = all.Merge(c.distinct) // of the same precision
		}
		tops = append(tops, &c.top)
	}
	return together(tops, shownKeys), int64(all.Estimate())
}

func (h *history) latency(from int64) Latency {
	all := newHistogram()
	for slot := from; slot <= coarseSlot(h.now); slot++ {
		all.Merge(h.times[slot%coarses])
	}
	at := func(percent float64) time.Duration {
		return time.Duration(all.ValueAtQuantile(percent)) * time.Microsecond
	}
	return Latency{P50: at(50), P99: at(99), P999: at(99.9)}
}

// Recent returns up to most recent requests, newest first. It selects from the last few thousand that were kept of
// each kind: those that were denied or would be, and the others.
func (t *Traffic) Recent(f Filter, most int) []Event {
	t.collect(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []Event
	for i := range t.history.recent {
		r := &t.history.recent[i]
		for n, taken := 0, 0; n < len(r.events) && taken < most; n++ {
			if e := r.back(n); f.wantsEvent(e) && t.history.now.Sub(e.At) < Reach {
				found = append(found, *e)
				taken++
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Event) int { return b.At.Compare(a.At) })
	return found[:min(len(found), most)]
}

// Totals returns the totals of all requests since the start.
func (t *Traffic) Totals() Totals {
	t.collect(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.history.totals
}

// Rules calls f with the totals of every rule that has had requests since the start.
func (t *Traffic) Rules(f func(rule string, totals *RuleTotals)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, r := range t.history.rules {
		f(name, &r.totals)
	}
}

// Weight is how many requests an event represents, at least one.
func (e *Event) Weight() int64 { return max(1, e.weight) }
