package engine

import (
	"context"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// DecideEarly decides a request by what is known before its body is read, and reports whether that is enough: a key of
// it is blocked, a list decides, or a rule that reads nothing of the body denies it. If it is not enough, nothing was
// charged, counted or observed: read the body and call Decide.
//
// The store is asked only with peek. It first answers whether any limit is used up, and is told about the request only
// if one is. Shadow rules are not asked.
func (e *Engine) DecideEarly(ctx context.Context, c *penstock.Call, v *penstock.Verdict, peek bool) bool {
	w := e.works.Get().(*workspace)
	defer e.works.Put(w)
	w.reset(e.rules.Load())
	v.Reset()
	v.RulesVersion = w.snapshot.Version
	if validate(c) != nil || !e.block(c, v, w) && !e.decideHead(ctx, c, v, w, peek) {
		v.Reset()
		return false
	}
	e.tellObserver(c, v, w, nil)
	return true
}

func (e *Engine) decideHead(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *workspace, peek bool) bool {
	now := e.instantFor(w.snapshot)
	w.snapshot.MatchHead(c, now, &w.matched)
	if w.matched.Denied || w.matched.Allowed || w.matched.Refused != nil {
		return e.settleWithoutStore(v, w, now)
	}
	w.matched.Rules = slices.DeleteFunc(w.matched.Rules, func(m rules.MatchedRule) bool { return m.Rule.Mode != rules.Enforce })
	return peek && e.isExhausted(ctx, c, w, now) && e.denyHead(ctx, c, v, w, now)
}

// isExhausted peeks at the limits of the rules that were matched, and reports whether one of them may deny.
func (e *Engine) isExhausted(ctx context.Context, c *penstock.Call, w *workspace, now penstock.Instant) bool {
	free := *c
	free.Cost, free.ID = 0, ""
	if !e.ask(ctx, &free, w, now, false) {
		return false
	}
	out := &w.turn.Outcome
	return slices.ContainsFunc(out.Groups, func(g storage.GroupOutcome) bool { return !g.Allowed }) ||
		slices.ContainsFunc(out.Decisions, func(d penstock.Decision) bool { return d.Remaining <= 0 })
}

// denyHead asks for the rules that were matched as if another rule denied the request. So nothing is charged, and a
// denial counts where denials do.
func (e *Engine) denyHead(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *workspace, now penstock.Instant) bool {
	if !e.ask(ctx, c, w, now, true) {
		return false
	}
	out := &w.turn.Outcome
	out.Allowed = !slices.ContainsFunc(out.Groups, func(g storage.GroupOutcome) bool { return !g.Allowed })
	return !out.Allowed && e.finish(ctx, v, w, nil) == nil && !v.Allowed
}

// ask asks the store, and reports whether it has answered.
func (e *Engine) ask(ctx context.Context, c *penstock.Call, w *workspace, now penstock.Instant, denied bool) bool {
	w.turn.Ticket.Groups, w.asked, w.charges = w.turn.Ticket.Groups[:0], w.asked[:0], w.charges[:0]
	w.failures, w.fallbacks = w.failures[:0], w.fallbacks[:0]
	w.write(c)
	t := &w.turn.Ticket
	if t.Denied = denied; e.now != nil {
		t.Now = now
	}
	return w.refused == nil && len(t.Groups) > 0 && e.takeShared(ctx, &w.turn) == nil
}
