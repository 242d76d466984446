package engine

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Part is one part of a request, with a rule that was found by another matcher than [rules.Snapshot.Match].
// A descriptor of Envoy's rate limit service is a Part.
type Part struct {
	Call penstock.Call
	Rule *rules.Rule // of the snapshot or, with a negative Index, of this request only; nil: no rule applies
	Key  []string    // values, in the order of the rule's key

	// Alone charges the part by itself: it does not affect the others, and they do not affect it.
	Alone bool

	Verdict *penstock.Verdict
	Err     error // as returned by [Engine.Decide]
	Cached  bool  // it was denied by the deny cache, and not counted
}

// DecideParts decides the parts of one request in one round trip. Those that are not alone pass, and are
// charged, all together or not at all. Each verdict is about its own part.
func (e *Engine) DecideParts(ctx context.Context, s *rules.Snapshot, parts []Part) {
	e.decideParts(ctx, s, parts, true)
}

// PeekParts peeks at parts as DecideParts would decide them, and charges nothing. Observers do not see it:
// they see the request when it is decided.
func (e *Engine) PeekParts(ctx context.Context, s *rules.Snapshot, parts []Part) {
	e.decideParts(ctx, s, parts, false)
}

func (e *Engine) decideParts(ctx context.Context, s *rules.Snapshot, parts []Part, observed bool) {
	if len(parts) > 1 && e.decidePartsTogether(ctx, s, parts, observed) {
		return
	}
	for i := range parts {
		e.decidePart(ctx, s, &parts[i], observed)
	}
}

func (e *Engine) decidePart(ctx context.Context, s *rules.Snapshot, part *Part, observed bool) {
	w := e.works.Get().(*workspace)
	defer e.works.Put(w)
	if !e.preparePart(s, part, w) {
		part.Err = e.finish(ctx, part.Verdict, w, e.takeShared(ctx, &w.turn))
		part.Cached = part.Err == nil && w.turn.Outcome.Cached
	}
	if observed {
		e.tellObserver(&part.Call, part.Verdict, w, part.Err)
	}
}

// decidePartsTogether decides all parts with one ticket, and reports whether one ticket can hold them.
func (e *Engine) decidePartsTogether(ctx context.Context, s *rules.Snapshot, parts []Part, observed bool) bool {
	p := newAtomicBatch(e, len(parts))
	defer p.leave(e)
	p.apart = true
	for i := range p.members {
		m := &p.members[i]
		m.call, m.verdict = &parts[i].Call, parts[i].Verdict
		p.enter(m, e.preparePart(s, &parts[i], m.work), nil)
	}
	if !p.join() {
		return false
	}
	p.decide(ctx, e)
	for i := range p.members {
		m := &p.members[i]
		parts[i].Err, parts[i].Cached = m.err, m.asks && m.err == nil && m.work.turn.Outcome.Cached
		if observed {
			e.tellObserver(m.call, m.verdict, m.work, m.err)
		}
	}
	return true
}

// preparePart builds the ticket of a part, and reports whether no store is needed.
func (e *Engine) preparePart(s *rules.Snapshot, part *Part, w *workspace) (settled bool) {
	w.reset(s)
	w.matched.Reset() // a work is also used for requests
	part.Verdict.Reset()
	part.Verdict.RulesVersion = s.Version
	if e.block(&part.Call, part.Verdict, w) {
		return true
	}
	if part.Rule != nil {
		w.matched.Rules = append(w.matched.Rules, rules.MatchedRule{Rule: part.Rule, Override: rules.NoOverride, Key: part.Key})
		w.write(&part.Call)
	}
	for i := range w.turn.Ticket.Groups {
		g := &w.turn.Ticket.Groups[i]
		g.Alone = g.Alone || part.Alone
	}
	return e.settleWithoutStore(part.Verdict, w, e.instantFor(s))
}
