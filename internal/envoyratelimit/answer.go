package envoyratelimit

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
)

// answer says what became of each descriptor. An ordinary limit that is over denies the request;
// those in quota mode deny it only if all of them are over; one in shadow mode never does.
func answer(a *rls.Answers, limits []*limit, parts []engine.Part) error {
	a.Allowed = true
	quotas, spent := 0, 0
	for i := range a.Each {
		limit, each := limits[i], &a.Each[i]
		if parts[i].Rule == nil {
			each.Unlimited = limit != nil
			each.Metadata = limit.passed(true)
			continue
		}
		if len(each.Verdict.Limits) == 0 { // nothing could count it: Envoy decides what becomes of it
			if parts[i].Err != nil {
				return parts[i].Err
			}
			continue // the rule could not be evaluated, which the engine has reported
		}
		limit.tell(each)
		switch over := !each.Verdict.Allowed; {
		case limit.quota:
			quotas++
			if over {
				spent++
			}
		case over:
			a.Allowed = false
		}
	}
	if quotas > 0 && spent == quotas {
		a.Allowed = false
	}
	return nil
}

// passed is the metadata of a descriptor that passes.
func (l *limit) passed(allowed bool) map[string]any {
	if l == nil || !allowed {
		return nil
	}
	return l.metadata
}

// tell has the answer tell of the limit, in shadow mode too. The window ends when it does, whether
// or not anything was counted in it.
func (l *limit) tell(a *rls.Answer) {
	v := &a.Verdict
	a.Name, a.Told, a.Metadata = l.name, &v.Limits[0], l.passed(v.Allowed)
	d := &a.Told.Decision
	length := penstock.Instant(l.window.Microseconds())
	d.ResetAfter, d.RetryAfter = time.Duration(length-v.Now%length)*time.Microsecond, 0
	if !d.Allowed {
		d.RetryAfter = d.ResetAfter
	}
	v.Rule, v.Decision = a.Told.Rule, *d
}
