package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
)

// A limitList holds the limits of a rule or an override, and their paths.
type limitList struct {
	terms []LimitTerms
	at    func(i int) path
	whole path
	scope uint64 // of an override with its own counters; 0: the rule's counters
}

// compiledLimits are the limits of a list that are valid. Where the number comes from data, compiled has the highest
// one, and usual the default.
type compiledLimits struct {
	compiled []penstock.Limit
	usual    []penstock.Limit
	meters   []*algorithm.Meter // of usual
	numbered []numbered         // one for each limit if numbers come from data; otherwise nil
	complete bool               // all limits of the list are valid
}

// ownLimits returns a rule's limits, with short forms written out.
func (c *compiler) ownLimits(t *RuleTerms, at path) limitList {
	list := limitList{terms: t.Limits, at: func(i int) path { return at.with("limits", i) }, whole: at.with("limits")}
	var short []LimitTerms
	var names []string
	for _, s := range []struct {
		name   string
		count  *int64
		window time.Duration
	}{{"requests_per_minute", t.RequestsPerMinute, time.Minute}, {"requests_per_hour", t.RequestsPerHour, time.Hour}} {
		if !c.has(at.with(s.name)) {
			continue
		}
		if names = append(names, s.name); c.has(list.whole) {
			c.failKey(at.with(s.name), complain("%s is short for a limit and cannot be given beside limits", s.name))
		}
		limit := LimitTerms{Rate: Rate{Window: s.window}, Algorithm: penstock.SlidingWindowLog}
		if s.count != nil {
			limit.Rate.Count = *s.count
		}
		short = append(short, limit)
	}
	if c.has(list.whole) {
		return list
	}
	if len(short) == 0 && c.isValid(list.whole) {
		c.fail(list.whole, complain("limits is missing").suggest("write for example limits: [100/1m]"))
	}
	return limitList{terms: short, at: func(i int) path { return at.with(names[i]) }, whole: at}
}

// limits compiles limits that are charged together.
func (c *compiler) limits(list limitList, t *RuleTerms, ruleAt path) compiledLimits {
	out := compiledLimits{complete: true}
	var at []path
	var terms []*LimitTerms
	for i := range list.terms {
		limit, ok := c.limit(&list.terms[i], list.at(i))
		if !ok {
			out.complete = false
			continue
		}
		limit.Scope = list.scope
		c.copySettings(&limit, t)
		if !c.validate(limit, &list.terms[i], list.at(i), ruleAt) {
			out.complete = false
			continue
		}
		out.compiled = append(out.compiled, limit)
		at = append(at, list.at(i))
		terms = append(terms, &list.terms[i])
	}
	c.number(out.compiled, at)
	out.usual = c.defaultLimits(&out, terms, t, at, ruleAt)
	for i, limit := range out.usual {
		meter := c.meter(limit)
		if meter == nil { // more equal limits than ordinals
			c.fail(at[i], complain("too many limits of this kind and window"))
			continue
		}
		out.meters = append(out.meters, meter)
		c.returns(meter, t, at[i])
		c.waits(meter, at[i])
	}
	if out.complete && len(out.meters) == len(list.terms) {
		c.warnUnreached(&out, at)
	}
	return out
}

// returns reports a limit that cannot give back what its rule reserves. A cost that comes with the response is an
// estimate until then.
func (c *compiler) returns(m *algorithm.Meter, t *RuleTerms, at path) {
	err := m.Returns()
	switch {
	case err == nil:
	case t.Reserve != nil:
		c.fail(at, complain("%v", err))
	case t.Cost != nil && (t.Cost.ResponseHeader != "" || t.Cost.ResponseBytes || t.Cost.ResponseJSON != ""):
		c.fail(at, complain("a cost that comes with the response must be reserved until then, and %v", err))
	case t.isCorrected():
		c.fail(at, complain("a charge that a response corrects must be reserved until then, and %v", err))
	}
}

// waits warns about a queue in which requests would wait longer than they can be held.
func (c *compiler) waits(m *algorithm.Meter, at path) {
	if m.Kind != algorithm.KindLeaky || c.options.MaxDelay == 0 {
		return
	}
	// float64 is precise enough: the values of interest are far from where it rounds.
	apart := float64(m.Window) / float64(m.Count)
	longest, can := apart*float64(m.Capacity-1), float64(c.options.MaxDelay.Microseconds())
	if longest > can {
		c.warn(at.with("queue"), complain("the last request in a queue of %d waits %v, but requests are delayed at most %v: %d can wait, the others are denied",
			m.Capacity-1, Duration(time.Duration(longest)*time.Microsecond), Duration(c.options.MaxDelay), int64(can/apart)).
			suggest("raise gateway.max_delay, or leave it out"))
	}
}

// limit turns terms into a limit, without the settings that the rule adds.
func (c *compiler) limit(t *LimitTerms, at path) (penstock.Limit, bool) {
	if !c.isValid(at) {
		return penstock.Limit{}, false
	}
	l := penstock.Limit{
		Algorithm: t.Algorithm, Count: t.Rate.Count, Window: t.Rate.Window, Period: t.Rate.Period,
		Burst: t.Burst, Refill: t.Refill, Queue: t.Queue,
	}
	before := c.mistakes
	c.checkTerms(t, at)
	if c.checkData(t, at); t.Rate.From != "" {
		l.Count = t.Max
	}
	if t.Concurrent != 0 {
		l.Algorithm, l.Count, l.Window = penstock.Concurrency, t.Concurrent, time.Duration(t.TTL)
	} else if l.Algorithm == 0 {
		l.Algorithm = penstock.SlidingWindowCounter
	}
	if t.Timezone != "" {
		l.Location = c.zone(t.Timezone, at.with("timezone"))
	}
	return l, c.mistakes == before
}

// checkTerms reports a limit that is neither a rate nor a number of concurrent requests, or is both.
func (c *compiler) checkTerms(t *LimitTerms, at path) {
	hasRate, isConcurrent := t.Rate != (Rate{}), t.Concurrent != 0
	switch {
	case hasRate && isConcurrent:
		c.fail(at.with("concurrent"), complain("concurrent cannot be given beside a rate").suggest("make it a limit of its own"))
	case isConcurrent:
		c.checkConcurrent(t, at)
	case hasRate && t.Algorithm == penstock.Concurrency:
		c.fail(at.with("rate"), complain("concurrency has no rate").suggest("write {concurrent: %d, ttl: 30s}", max(t.Rate.Count, 1)))
	case hasRate:
	case t.Algorithm == penstock.Concurrency:
		c.fail(at, complain("concurrent is missing").suggest("as in {concurrent: 5, ttl: 30s}"))
	default:
		c.fail(at, complain("rate is missing").suggest("as in {rate: 100/1m}"))
	}
	if t.TTL != 0 && !isConcurrent {
		c.fail(at.with("ttl"), complain("ttl can only be used with concurrent"))
	}
}

func (c *compiler) checkConcurrent(t *LimitTerms, at path) {
	switch {
	case t.Algorithm != 0 && t.Algorithm != penstock.Concurrency:
		c.fail(at.with("algorithm"), complain("concurrent needs the algorithm concurrency, not %v", t.Algorithm))
	case t.TTL == 0:
		c.fail(at, complain("ttl is missing").suggest("it limits how long a request that is not released holds its permit, for example ttl: 30s"))
	}
}

// zone finds a time zone by its name. It rejects the machine's local zone, because nodes may differ in it.
func (c *compiler) zone(name string, at path) *time.Location {
	if known := c.zones[name]; known != nil {
		return known
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		c.fail(at, complain("unknown time zone %.64q", name).suggest("use a name of the IANA database, as in Europe/Berlin"))
		return nil
	}
	c.zones[name] = location
	return location
}

// copySettings copies settings of the rule to a limit that supports them.
func (c *compiler) copySettings(l *penstock.Limit, t *RuleTerms) {
	if t.CountDenied && countsDenied(l.Algorithm) {
		l.CountDenied = true
	}
	if t.Overdraft != nil && overdraws(l.Algorithm) {
		l.Overdraft = t.Overdraft.Max
	}
}

func countsDenied(a penstock.Algorithm) bool {
	return a == penstock.FixedWindow || a == penstock.SlidingWindowLog || a == penstock.SlidingWindowCounter
}

func overdraws(a penstock.Algorithm) bool {
	return a != penstock.LeakyBucket && a != penstock.Concurrency
}

// checkUnused reports settings of a rule that none of its limits supports.
func (c *compiler) checkUnused(l compiledLimits, t *RuleTerms, at path) {
	if !l.complete || len(l.compiled) == 0 {
		return
	}
	any := func(can func(penstock.Algorithm) bool) bool {
		return slices.ContainsFunc(l.compiled, func(l penstock.Limit) bool { return can(l.Algorithm) })
	}
	if t.CountDenied && !any(countsDenied) {
		c.fail(at.with("count_denied"), complain("count_denied is only for windows, and no limit is a window"))
	}
	if t.Overdraft != nil && !any(overdraws) {
		c.fail(at.with("overdraft"), complain("no limit can be overdrawn: the calls of a %v are counted one by one as they come", l.compiled[0].Algorithm))
	}
}

// validate reports the errors that the root package finds in a limit, at the place where each was written.
func (c *compiler) validate(l penstock.Limit, t *LimitTerms, at, ruleAt path) bool {
	err := l.Validate()
	for _, e := range fieldErrors(err) {
		where, complaint := at.with(e.Field), complain("%v", e)
		switch e.Field {
		case "count":
			where = at.with("rate")
			if t.Concurrent != 0 {
				where = at.with("concurrent")
			}
		case "window":
			where = at.with("rate")
			complaint.in(c.afterSlash(where))
			if t.Concurrent != 0 {
				where, complaint = at.with("ttl"), complain("ttl %v: %s", t.TTL, e.Problem)
			}
		case "period":
			where = at.with("rate")
			complaint.in(c.afterSlash(where)).suggest("write {rate: %v, algorithm: fixed_window}", t.Rate)
		case "overdraft":
			where = ruleAt.with("overdraft", "max")
		case "count_denied":
			where = ruleAt.with("count_denied")
		}
		c.fail(where, complaint)
	}
	return err == nil
}

// afterSlash returns the offset of the period in a rate.
func (c *compiler) afterSlash(at path) int {
	count, _, _ := strings.Cut(c.source.find(at).Text, "/")
	return runes(count) + 1
}

// meter compiles a valid limit, once for all equal ones.
func (c *compiler) meter(l penstock.Limit) *algorithm.Meter {
	if known := c.meters[l]; known != nil {
		return known
	}
	meter, err := l.Compile()
	if err != nil {
		return nil
	}
	c.meters[l] = meter
	return meter
}

// number assigns ordinals to limits that would otherwise share their state. It orders them by their numbers, so
// the order in the document does not matter.
func (c *compiler) number(limits []penstock.Limit, at []path) {
	alike := map[uint64][]int{}
	for i, l := range limits {
		if meter := c.meter(l); meter != nil {
			alike[meter.Fingerprint] = append(alike[meter.Fingerprint], i)
		}
	}
	for _, group := range alike {
		slices.SortStableFunc(group, func(a, b int) int { return compareLimits(&limits[a], &limits[b]) })
		for ordinal, i := range group {
			if ordinal > 0 && compareLimits(&limits[group[ordinal-1]], &limits[i]) == 0 {
				c.fail(at[i], complain("the limit %v is there twice", limits[i]))
			}
		}
		for ordinal, i := range group {
			limits[i].Ordinal = uint8(ordinal)
		}
	}
}

func compareLimits(a, b *penstock.Limit) int {
	return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(capacity(a), capacity(b)))
}

// capacity is how much can pass at once.
func capacity(l *penstock.Limit) int64 {
	switch {
	case l.Algorithm == penstock.LeakyBucket:
		return l.Queue + 1
	case l.Burst != 0:
		return l.Burst
	}
	return l.Count
}
