package engine

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// fill makes the verdict of what the store said.
func (w *work) fill(v *penstock.Verdict, q penstock.Quality) {
	out := w.outcome
	v.Allowed, v.Quality, v.Now = out.Allowed, q, out.Now
	at := 0
	for i := range w.ticket.Groups {
		n := len(w.ticket.Groups[i].Charges)
		w.report(v, i, out.Decisions[at:at+n])
		at += n
	}
	v.Reservation = w.reservation(q == penstock.QualityLocal)
	switch {
	case v.BannedUntil != 0:
		v.Reason = penstock.ReasonBanned
	case !v.Allowed:
		v.Reason = penstock.ReasonOverLimit
	case v.Duplicate:
		v.Reason = penstock.ReasonDuplicate
	default:
		v.Reason = penstock.ReasonOK
	}
	if !v.Allowed {
		v.Delay = 0
	}
}

// report adds one group's limits to the verdict.
func (w *work) report(v *penstock.Verdict, group int, decisions []penstock.Decision) {
	g, a := &w.outcome.Groups[group], &w.asked[group]
	for j := range decisions {
		add(v, a.rule, a.policies[j], w.ticket.Groups[group].Charges[j].Meter, &decisions[j])
		v.Limits[len(v.Limits)-1].Banned = g.BannedUntil != 0
	}
	if a.rule.Mode == rules.Shadow {
		return
	}
	v.Duplicate = v.Duplicate || g.Replay
	if g.BannedUntil != 0 && !g.Allowed {
		v.BannedUntil = max(v.BannedUntil, g.BannedUntil)
	}
}

// add reports one limit, and lets it speak for the verdict if it is the strictest so far.
func add(v *penstock.Verdict, r *rules.Rule, policy string, m *penstock.Meter, d *penstock.Decision) {
	shadow := r.Mode == rules.Shadow
	v.Limits = append(v.Limits, penstock.LimitVerdict{
		Rule: r.Name, Policy: policy, Shadow: shadow,
		Algorithm: m.Algorithm(), Window: time.Duration(m.Window) * time.Microsecond, Decision: *d,
	})
	if shadow {
		return
	}
	v.Delay = max(v.Delay, d.Delay)
	if v.Rule == "" || stricter(d, v) {
		v.Rule, v.Decision = r.Name, *d
	}
}

// stricter tells whether a decision rather than the verdict's own is what the caller is to know: of
// those that deny the longest wait, else the least that is left.
func stricter(d *penstock.Decision, v *penstock.Verdict) bool {
	switch {
	case v.Allowed:
		return d.Remaining < v.Decision.Remaining
	case d.Allowed || v.Decision.Allowed:
		return !d.Allowed && v.Decision.Allowed
	case d.RetryAfter == penstock.Never || v.Decision.RetryAfter == penstock.Never:
		return v.Decision.RetryAfter != penstock.Never
	}
	return d.RetryAfter > v.Decision.RetryAfter
}

// without decides a call that the store did not, by what each rule says of that.
func (e *Engine) without(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *work, err error) error {
	if errors.Is(err, penstock.ErrInvalid) {
		return err // the verdict is still the one that denies
	}
	v.Allowed, v.Reason, v.Quality = true, penstock.ReasonStoreError, penstock.QualityUnchecked
	if denies := w.keepLocal(e.local != nil); denies != nil {
		v.Allowed, v.Rule = false, denies.Name
		return err
	}
	if len(w.ticket.Groups) == 0 {
		return err
	}
	// The call is to be answered even if its time is up: the local store does not wait.
	if e.take(context.WithoutCancel(ctx), e.local, w) != nil {
		return err
	}
	w.fill(v, penstock.QualityLocal)
	return err
}

// keepLocal leaves of the ticket the groups that can be decided locally. It returns a rule that
// denies what the store did not decide, if there is one.
func (w *work) keepLocal(possible bool) (denies *rules.Rule) {
	groups, kept := w.ticket.Groups[:0], w.asked[:0]
	for i := range w.ticket.Groups {
		r := w.asked[i].rule
		switch {
		case r.OnStoreError == rules.FailDeny && r.Mode == rules.Enforce:
			return r
		case possible && (r.OnStoreError == rules.FailLocal || r.OnStoreError == rules.FailDivided):
			groups, kept = append(groups, w.ticket.Groups[i]), append(kept, w.asked[i])
		}
	}
	w.ticket.Groups, w.asked = groups, kept
	return nil
}
