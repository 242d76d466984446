package traffic

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// A Query selects what to count: the slots of a period, and all rules or one.
type Query struct {
	From time.Time     `json:"from"` // a multiple of Step since 1970, as To is
	To   time.Time     `json:"to"`   // exclusive
	Step time.Duration `json:"step"` // a multiple of five seconds
	Rule string        `json:"rule"` // "": all rules
}

// Last returns the query for a period of this length that ends with the current slot. It has at most 120 steps.
func Last(now time.Time, last time.Duration) Query {
	last = min(max(last, fine), Reach)
	step := stepFor(last)
	to := now.Truncate(step).Add(step)
	return Query{From: to.Add(-last / step * step), To: to, Step: step}
}

// maxSteps bounds the steps of a query: an hour in the smallest.
const maxSteps = int(fines)

// Steps returns how many steps a query has.
func (q *Query) Steps() int { return int(q.To.Sub(q.From) / q.Step) }

// Valid reports whether a query can be answered: it has steps, not too many, and they begin with slots.
func (q *Query) Valid() bool {
	return q.Step >= fine && q.Step%fine == 0 && q.From.Before(q.To) && q.To.Sub(q.From) <= time.Duration(maxSteps)*q.Step &&
		q.From.UnixNano()%int64(q.Step) == 0 && q.To.UnixNano()%int64(q.Step) == 0
}

// Stats are the counts of a period.
type Stats struct {
	Query
	Now   time.Time // a step that ends later is not complete
	Since time.Time // when counting began: steps before it are unknown

	Total  Counts
	Series []Counts
	Rules  []RuleStats // rules with requests, most denied first

	// Times are those since the last multiple of five minutes before From.
	Decisions Times
	Store     Times // of operations that were sent to the store

	StoreTotal StoreCounts
}

// RuleStats are the counts of one rule.
type RuleStats struct {
	Rule   string
	Total  Counts
	Series []Counts // none if there are too many rules

	// Keys and Top are of the clients since the last multiple of five minutes before From; empty if there are too many
	// rules.
	Keys Keys
	Top  []KeyStats // denied clients, and those that a shadow rule would deny
}

// points is the maximum length of a series.
const points = 120

// Stats returns the counts of the last period of this length, at most [Reach].
func (t *Traffic) Stats(last time.Duration) Stats { return t.Count(Last(time.Now(), last)) }

// Count answers a query. What is older than [Reach] counts as nothing.
func (t *Traffic) Count(q Query) Stats {
	t.collect(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	s := Stats{Query: q, Now: h.now.UTC(), Since: h.began.UTC()}
	s.From, s.To = q.From.UTC(), q.To.UTC()
	if oldest := h.now.Add(-Reach + fine); s.Since.Before(oldest) {
		s.Since = oldest.UTC()
	}
	s.Series, s.Total = h.sum(&h.series, &q)
	for slot := range h.slots(&q) {
		s.StoreTotal.Add(h.store[slot%fines])
	}
	from, to := max(coarseSlot(q.From), coarseSlot(h.now)-coarses+1), min(coarseSlot(q.To.Add(-1)), coarseSlot(h.now))
	for name, r := range h.rules {
		if r.series == nil || q.Rule != "" && q.Rule != name {
			continue
		}
		found := RuleStats{Rule: name}
		if found.Series, found.Total = h.sum(r.series, &q); found.Total == (Counts{}) {
			continue
		}
		if r.callers != nil {
			found.Top, found.Keys = r.topClients(from, to)
		}
		s.Rules = append(s.Rules, found)
	}
	s.sort()
	for slot := from; slot <= to; slot++ {
		s.Decisions.add(h.times[slot%coarses].decisions)
		s.Store.add(h.times[slot%coarses].store)
	}
	return s
}

// sort puts the rules that deny most first.
func (s *Stats) sort() {
	slices.SortFunc(s.Rules, func(a, b RuleStats) int {
		return cmp.Or(cmp.Compare(b.Total.Denied, a.Total.Denied), cmp.Compare(b.Total.Shadow, a.Total.Shadow), cmp.Compare(a.Rule, b.Rule))
	})
}

// Add adds the counts of another node for the same query. Steps before either began are incomplete: Since is the
// earlier beginning.
func (s *Stats) Add(o *Stats) {
	if o.Since.Before(s.Since) {
		s.Since = o.Since
	}
	s.Total.Add(o.Total)
	s.Series = addSeries(s.Series, o.Series)
	s.Decisions.add(o.Decisions)
	s.Store.add(o.Store)
	s.StoreTotal.Add(o.StoreTotal)
	known := make(map[string]int, len(s.Rules))
	for i := range s.Rules {
		known[s.Rules[i].Rule] = i
	}
	for i := range o.Rules {
		if at, ok := known[o.Rules[i].Rule]; ok {
			s.Rules[at].add(&o.Rules[i])
		} else if len(s.Rules) < maxRules {
			s.Rules = append(s.Rules, o.Rules[i])
		}
	}
	s.sort()
}

func (r *RuleStats) add(o *RuleStats) {
	r.Total.Add(o.Total)
	r.Series = addSeries(r.Series, o.Series)
	r.Keys.merge(o.Keys)
	r.Top = mergeClients(r.Top, o.Top)
}

// addSeries adds one series to another, which may be nil. A series of another length is of another query.
func addSeries(to, from []Counts) []Counts {
	if to == nil {
		return from
	}
	for i := range min(len(to), len(from)) {
		to[i].Add(from[i])
	}
	return to
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

// slots returns the fine slots of a query that are kept.
func (h *history) slots(q *Query) iter.Seq[int64] {
	now := fineSlot(h.now)
	return func(yield func(int64) bool) {
		for slot := max(fineSlot(q.From), now-fines+1); slot < fineSlot(q.To) && slot <= now; slot++ {
			if !yield(slot) {
				return
			}
		}
	}
}

// sum adds up the slots of a query: by step, and in total.
func (h *history) sum(series *[fines]Counts, q *Query) (points []Counts, total Counts) {
	points = make([]Counts, q.Steps())
	for slot := range h.slots(q) {
		c := series[slot%fines]
		points[(slot-fineSlot(q.From))*int64(fine)/int64(q.Step)].Add(c)
		total.Add(c)
	}
	return points, total
}

// topClients returns the most denied clients of some slots, and the distinct clients.
func (r *ruleHistory) topClients(from, to int64) (most []KeyStats, distinct Keys) {
	var tops [][]KeyStats
	for slot := from; slot <= to; slot++ {
		c := &r.callers[slot%coarses]
		distinct.merge(c.distinct)
		tops = append(tops, c.top.entries)
	}
	return mergeClients(tops...), distinct
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
func (e *Event) Weight() int64 { return max(1, e.Represents) }
