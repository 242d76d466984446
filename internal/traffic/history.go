package traffic

import (
	"maps"
	"slices"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// The history consists of time slots. The oldest are reused.
const (
	Reach    = time.Hour       // how far back it goes
	fine     = 5 * time.Second // slots of counts
	coarse   = 5 * time.Minute // slots of clients and of decision times
	fines    = int64(Reach / fine)
	coarses  = int64(Reach / coarse)
	maxNames = 10_000 // rules; further ones are counted under [Others]
	maxRules = 1024   // rules with counts over time; further ones have totals only
	maxTops  = 256    // rules with top clients

	maxRecent = 4096 // requests of either kind
)

// Others is the name under which rules are counted when there are very many.
const Others = "_others"

// A history is what was collected from the shards. Slots are numbered since 1970.
type history struct {
	began  time.Time
	now    time.Time
	totals Totals
	rules  map[string]*ruleHistory

	series [fines]Counts
	store  [fines]StoreCounts
	times  [coarses]slotTimes
	recent [2]eventRing // allowed requests, and others
	marks  []Mark
}

// slotTimes are how long decisions and operations of the store took in one slot.
type slotTimes struct{ decisions, store Times }

type ruleHistory struct {
	totals  RuleTotals
	series  *[fines]Counts        // nil: there are too many rules
	callers *[coarses]clientStats // nil: the same
	last    int64                 // the last fine slot it was counted in
}

// clientStats are the clients of a rule.
type clientStats struct {
	distinct Keys
	top      top
}

func fineSlot(t time.Time) int64   { return t.UnixNano() / int64(fine) }
func coarseSlot(t time.Time) int64 { return t.UnixNano() / int64(coarse) }

// advance moves on to an instant, and clears the slots that are reused. If the clock was set back, it waits until the
// clock catches up.
func (h *history) advance(now time.Time) {
	if now.Before(h.now) {
		return
	}
	for slot := max(fineSlot(h.now)+1, fineSlot(now)-fines+1); slot <= fineSlot(now); slot++ {
		h.series[slot%fines], h.store[slot%fines] = Counts{}, StoreCounts{}
		for _, r := range h.rules {
			if r.series != nil {
				r.series[slot%fines] = Counts{}
			}
		}
	}
	for slot := max(coarseSlot(h.now)+1, coarseSlot(now)-coarses+1); slot <= coarseSlot(now); slot++ {
		h.times[slot%coarses] = slotTimes{}
		for _, r := range h.rules {
			if r.callers != nil {
				r.callers[slot%coarses] = clientStats{}
			}
		}
	}
	if coarseSlot(now) != coarseSlot(h.now) {
		h.forget(now)
	}
	h.now = now
}

// forget drops rules without requests in the whole history, and old requests.
func (h *history) forget(now time.Time) {
	maps.DeleteFunc(h.rules, func(_ string, r *ruleHistory) bool { return fineSlot(now)-r.last > fines })
	for i := range h.recent {
		h.recent[i].forget(now.Add(-Reach))
	}
}

// add takes over what a shard holds.
func (h *history) add(s *shard) {
	h.totals.add(&s.totals)
	h.series[fineSlot(h.now)%fines].Add(s.totals.Counts())
	for i := range s.tallies {
		h.count(s.tallies[i].rule.Name, &s.tallies[i].counts)
	}
	for name, counts := range s.named {
		h.count(name, counts)
	}
	for i := range s.callers {
		h.recordClient(s.rules.Rules[s.callers[i].rule], s.callers[i].hash)
	}
	for i := range s.kept {
		h.remember(&s.kept[i])
	}
}

func (h *history) count(rule string, counts *RuleTotals) {
	r := h.rule(rule)
	r.totals.add(counts)
	if r.series != nil {
		r.series[fineSlot(h.now)%fines].Add(counts.counts())
	}
}

func (h *history) rule(name string) *ruleHistory {
	r := h.rules[name]
	if r == nil && len(h.rules) >= maxNames {
		name = Others
		r = h.rules[name]
	}
	if r == nil {
		r = new(ruleHistory)
		if len(h.rules) < maxRules {
			r.series = new([fines]Counts)
		}
		if len(h.rules) < maxTops {
			r.callers = new([coarses]clientStats)
		}
		h.rules[name] = r
	}
	r.last = fineSlot(h.now)
	return r
}

func (h *history) recordClient(rule *rules.Rule, hash uint64) {
	if r := h.rule(rule.Name); r.callers != nil {
		r.callers[coarseSlot(h.now)%coarses].distinct.insert(hash)
	}
}

// remember adds a request to the recent ones, and counts its client.
func (h *history) remember(e *Event) {
	kind := 0
	for i := range e.Keys {
		k := &e.Keys[i]
		if k.Result == Denied || k.Result == ShadowDenied {
			kind = 1
		}
		if r := h.rule(k.Rule); r.callers != nil && e.Represents > 0 {
			r.callers[coarseSlot(h.now)%coarses].top.add(k, e.Represents)
		}
	}
	if !e.Allowed {
		kind = 1
	}
	h.recent[kind].add(e)
}

// An eventRing holds the most recent events.
type eventRing struct {
	events []Event // in order; when full, starting at next
	next   int
}

func (r *eventRing) add(e *Event) {
	if len(r.events) < maxRecent {
		r.events = append(r.events, *e)
		return
	}
	r.events[r.next] = *e
	r.next = (r.next + 1) % maxRecent
}

// back returns the nth newest event, counted from 0.
func (r *eventRing) back(n int) *Event {
	return &r.events[(r.next+len(r.events)-1-n)%len(r.events)]
}

// forget drops events from before an instant.
func (r *eventRing) forget(before time.Time) {
	r.events = slices.Concat(r.events[r.next:], r.events[:r.next])
	r.events = slices.DeleteFunc(r.events, func(e Event) bool { return e.At.Before(before) })
	r.next = 0
}
