package envoyratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// LimiterOptions configure a limiter.
type LimiterOptions struct {
	Engine Engine

	// PerSecond decides limits whose window is a second; nil: Engine does. Its counters are separate, so nothing is
	// charged together with those of Engine.
	PerSecond Engine

	// Rules are those of the files, as [Options.Compile] makes them. With any other rules, only limits in the
	// descriptors themselves apply.
	Rules engine.Rules

	// Together charges limits in the descriptors atomically with the others. It must equal that of the files'
	// [Options].
	Together bool

	// UnlessOver changes what a request that exceeds some of its limits is charged: only the descriptors under those
	// limits, as with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT.
	UnlessOver bool

	Stats *Stats // count decisions; nil: none

	// Quota treats every limit as one in quota mode, as QUOTA_MODE does.
	Quota bool
}

// An Engine decides the parts of a request. *engine.Engine is one.
type Engine interface {
	DecideParts(ctx context.Context, s *rules.Snapshot, parts []engine.Part)
	PeekParts(ctx context.Context, s *rules.Snapshot, parts []engine.Part)
	RefundPart(ctx context.Context, s *rules.Snapshot, part *engine.Part)
}

// A Limiter answers like envoyproxy/ratelimit. It is safe for concurrent use.
type Limiter struct{ LimiterOptions }

var _ rls.Limiter = (*Limiter)(nil)

// NewLimiter returns a limiter, or an error if the options are incomplete.
func NewLimiter(o LimiterOptions) (*Limiter, error) {
	if o.Engine == nil || o.Rules == nil {
		return nil, errors.New("limit by descriptors: it needs an engine and rules")
	}
	return &Limiter{o}, nil
}

// Limit answers a request.
func (l *Limiter) Limit(ctx context.Context, r *rls.Request) (*rls.Answers, error) {
	s := l.Rules.Load()
	c, _ := s.Matcher.(*Config)
	w := workspaces.Get().(*workspace)
	defer w.free()
	limits, err := l.match(s, c, r, w.limits[:0])
	if err != nil {
		return nil, err
	}
	a := r.Answers()
	parts := slices.Grow(w.parts[:0], len(limits))[:len(limits)]
	keys := w.keys[:0]
	w.limits, w.parts = limits, parts
	for i, limit := range limits {
		d, p := &r.Descriptors[i], &parts[i]
		entries := rls.Countable(d.Entries) // the original entries have already been matched
		p.Call = penstock.Call{Domain: r.Domain, Attributes: entries, Cost: d.Cost, ID: d.ID, Named: d.ID != ""}
		p.Verdict = &a.Each[i].Verdict
		if limit != nil && !limit.unlimited {
			from := len(keys)
			keys = slices.Grow(keys, len(entries))
			keys = limit.appendKey(keys, entries)
			p.Rule, p.Key, p.Alone = limit.rule, keys[from:len(keys):len(keys)], limit.alone
		}
	}
	w.keys = keys
	if l.Together {
		separate(parts)
	}
	if l.UnlessOver {
		l.chargeOnlyOver(ctx, s, r, parts)
	}
	l.decide(ctx, s, r, parts)
	l.Stats.count(c, r, limits, parts)
	if err := l.answer(a, limits, parts); err != nil {
		return nil, err
	}
	return a, nil
}

// A workspace is the memory for one request.
type workspace struct {
	limits []*limit
	parts  []engine.Part
	keys   []string // of all parts
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// free gives the memory back, without what the request leaves in it.
func (w *workspace) free() {
	clear(w.limits)
	clear(w.parts)
	clear(w.keys)
	workspaces.Put(w)
}

// decide charges and refunds, on each engine in the order of the descriptors.
func (l *Limiter) decide(ctx context.Context, s *rules.Snapshot, r *rls.Request, parts []engine.Part) {
	if l.PerSecond == nil {
		decideOn(ctx, l.Engine, s, r.Descriptors, parts)
		return
	}
	l.onEach(parts, func(e Engine, at []int, parts []engine.Part) {
		descriptors := make([]rls.Descriptor, len(at))
		for i, from := range at {
			descriptors[i] = r.Descriptors[from]
		}
		decideOn(ctx, e, s, descriptors, parts)
	})
}

func decideOn(ctx context.Context, e Engine, s *rules.Snapshot, descriptors []rls.Descriptor, parts []engine.Part) {
	from := 0
	for i := range parts {
		if !descriptors[i].Refund {
			continue
		}
		if from < i {
			e.DecideParts(ctx, s, parts[from:i])
		}
		e.RefundPart(ctx, s, &parts[i])
		from = i + 1
	}
	if from < len(parts) {
		e.DecideParts(ctx, s, parts[from:])
	}
}

// onEach calls do with the parts of each engine and their positions.
func (l *Limiter) onEach(parts []engine.Part, do func(e Engine, at []int, parts []engine.Part)) {
	for _, e := range []Engine{l.Engine, l.PerSecond} { // the second may be nil, and then has no parts
		var at []int
		var own []engine.Part
		for i := range parts {
			if l.engineOf(&parts[i]) == e {
				at, own = append(at, i), append(own, parts[i])
			}
		}
		if len(own) == 0 {
			continue
		}
		do(e, at, own)
		for i, to := range at {
			parts[to] = own[i]
		}
	}
}

func (l *Limiter) engineOf(p *engine.Part) Engine {
	if l.PerSecond != nil && p.Rule != nil && p.Rule.Limits[0].Window == time.Second.Microseconds() {
		return l.PerSecond
	}
	return l.Engine
}

// chargeOnlyOver first reads all counters. If the request would exceed any of its limits, the parts under the other
// limits cost nothing. Other requests can charge the same counters in between, as in envoyproxy/ratelimit: counters
// that count everything never admit more than their limits.
func (l *Limiter) chargeOnlyOver(ctx context.Context, s *rules.Snapshot, r *rls.Request, parts []engine.Part) {
	peeks, verdicts := slices.Clone(parts), make([]penstock.Verdict, len(parts))
	counted := 0
	for i := range peeks {
		peeks[i].Call.Cost, peeks[i].Verdict = 0, &verdicts[i]
		if r.Descriptors[i].Refund {
			peeks[i].Rule = nil
		}
		if peeks[i].Rule != nil {
			counted++
		}
	}
	if counted < 2 {
		return // a single limit is charged either way
	}
	l.onEach(peeks, func(e Engine, _ []int, parts []engine.Part) { e.PeekParts(ctx, s, parts) })
	isOver := make([]bool, len(parts))
	for i := range verdicts {
		if limits := verdicts[i].Limits; len(limits) > 0 {
			isOver[i] = limits[0].Used+parts[i].Call.Cost > limits[0].Limit
		}
	}
	if !slices.Contains(isOver, true) {
		return
	}
	for i := range parts {
		if !isOver[i] && !r.Descriptors[i].Refund {
			parts[i].Call.Cost = 0
		}
	}
}

// match finds the limit of each descriptor, nil if there is none, and leaves out limits that another one replaces.
func (l *Limiter) match(s *rules.Snapshot, c *Config, r *rls.Request, limits []*limit) ([]*limit, error) {
	var replaced []string
	for i := range r.Descriptors {
		limit, err := l.find(s, c, r.Domain, &r.Descriptors[i])
		if err != nil {
			return nil, fmt.Errorf("descriptors[%d].limit: %w", i, err)
		}
		if limits = append(limits, limit); limit != nil {
			replaced = append(replaced, limit.replaces...)
		}
	}
	for i, limit := range limits {
		if limit != nil && !limit.unlimited && slices.Contains(replaced, limit.name) {
			limits[i] = nil
		}
	}
	return limits, nil
}

// find prefers the limit in the descriptor, if the domain is known. The configuration is nil if there are no files.
func (l *Limiter) find(s *rules.Snapshot, c *Config, domain string, d *rls.Descriptor) (*limit, error) {
	switch {
	case d.Limit == nil && c == nil:
		return nil, nil
	case d.Limit == nil:
		return c.find(domain, d.Entries), nil
	case c != nil && c.domains[domain] == nil:
		return nil, nil
	}
	own := &limit{path: "override", count: d.Limit.Count, window: d.Limit.Window}
	entries, way := make([]descriptor, len(d.Entries)), make([]*descriptor, len(d.Entries))
	for i := range way {
		entries[i].key, way[i] = d.Entries[i].Name, &entries[i]
	}
	if err := own.compile(s.Hasher, domain, way, l.Together); err != nil {
		return nil, err
	}
	own.rule.Index = -1
	return own, nil
}

// separate charges by itself what is counted a second time in a request: a ticket can charge each state only once.
func separate(parts []engine.Part) {
	type counter struct {
		subject     storage.Subject
		fingerprint uint64
	}
	var all []counter
	for i := range parts {
		p := &parts[i]
		if p.Rule == nil || p.Alone {
			continue
		}
		own := counter{p.Rule.Subjects.Subject(p.Key...), p.Rule.Limits[0].Fingerprint}
		p.Alone = slices.Contains(all, own)
		all = append(all, own)
	}
}
