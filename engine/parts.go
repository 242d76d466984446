package engine

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A Part is one part of a request, with the rule that a matcher of its own has found for it rather than
// [rules.Snapshot.Match]. A descriptor of Envoy's rate limit service is one.
type Part struct {
	Call penstock.Call
	Rule *rules.Rule // of the snapshot or, with a negative Index, of this request only; nil: none applies
	Key  []string    // values, in the order of the rule's key

	// Alone charges the part by itself: it does not affect the others, nor they it.
	Alone bool

	Verdict *penstock.Verdict
	Err     error // as [Engine.Decide] returns it
	Cached  bool  // it was denied from memory, and not counted
}

// DecideParts answers the parts of one request in one round trip. Those that are not alone pass, and are
// charged, together or not at all. A verdict tells of its own part.
func (e *Engine) DecideParts(ctx context.Context, s *rules.Snapshot, parts []Part) {
	e.decideParts(ctx, s, parts, true)
}

// PeekParts answers parts that cost nothing, as DecideParts does, before they are decided. Observers are not
// told: the request is observed when it is decided.
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
	w := e.works.Get().(*work)
	defer e.works.Put(w)
	if !e.preparePart(s, part, w) {
		part.Err = e.finish(ctx, part.Verdict, w, e.ask(ctx, &w.turn))
		part.Cached = part.Err == nil && w.turn.Outcome.Cached
	}
	if observed {
		e.tell(&part.Call, part.Verdict, w, part.Err)
	}
}

// decidePartsTogether reports whether one ticket can hold all parts.
func (e *Engine) decidePartsTogether(ctx context.Context, s *rules.Snapshot, parts []Part, observed bool) bool {
	p := newParty(e, len(parts))
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
			e.tell(m.call, m.verdict, m.work, m.err)
		}
	}
	return true
}

// preparePart makes the ticket of a part, and tells whether no store is needed.
func (e *Engine) preparePart(s *rules.Snapshot, part *Part, w *work) (settled bool) {
	w.reset(s)
	w.matched.Reset() // a work is used for calls, too
	part.Verdict.Reset()
	part.Verdict.RulesVersion = s.Version
	if part.Rule != nil {
		w.matched.Rules = append(w.matched.Rules, rules.Matched{Rule: part.Rule, Override: rules.NoOverride, Key: part.Key})
		w.write(&part.Call)
	}
	for i := range w.turn.Ticket.Groups {
		g := &w.turn.Ticket.Groups[i]
		g.Alone = g.Alone || part.Alone
	}
	return e.settleWithoutStore(part.Verdict, w, e.instantFor(s))
}
