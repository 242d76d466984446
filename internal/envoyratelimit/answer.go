package envoyratelimit

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
)

// answer sets the result of each descriptor. An ordinary limit that is exceeded denies the request; limits in quota
// mode deny it only if all of them are exceeded; a limit in shadow mode never denies. In global quota mode a
// descriptor without a limit counts as not exceeded, as in envoyproxy/ratelimit.
func (l *Limiter) answer(a *rls.Answers, limits []*limit, parts []engine.Part) error {
	a.Allowed = true
	var quotas quotaTally
	for i := range a.Each {
		limit, each := limits[i], &a.Each[i]
		if each.Verdict.Reason == penstock.ReasonBlocked { // by an operator, whatever the limit is
			a.Allowed = false
			continue
		}
		if limit != nil && limit.unlimited {
			each.Unlimited, each.Metadata = true, limit.metadata
			continue
		}
		isCounted := parts[i].Rule != nil && len(each.Verdict.Limits) > 0
		switch {
		case isCounted:
			limit.addTo(each)
		case parts[i].Rule != nil && parts[i].Err != nil: // no engine could count it: Envoy decides what happens
			return parts[i].Err
		}
		over := isCounted && !each.Verdict.Allowed // the engine has already reported a rule that could not be evaluated
		each.Quota = l.Quota || limit != nil && limit.quota
		switch {
		case each.Quota:
			quotas.add(over)
		case over:
			a.Allowed = false
		}
	}
	if quotas.isSpent() {
		a.Allowed = false
	}
	return nil
}

// quotaTally counts descriptors in quota mode, and the exceeded ones among them.
type quotaTally struct{ all, over int }

func (q *quotaTally) add(over bool) {
	q.all++
	if over {
		q.over++
	}
}

func (q *quotaTally) isSpent() bool { return q.all > 0 && q.over == q.all }

// addTo adds the limit to the answer, in shadow mode too. A fixed window ends at its usual time, whether or not
// anything was counted in it.
func (l *limit) addTo(a *rls.Answer) {
	v := &a.Verdict
	a.Name, a.Told = l.name, &v.Limits[0]
	if v.Allowed {
		a.Metadata = l.metadata
	}
	d := &a.Told.Decision
	if a.Told.Algorithm == penstock.FixedWindow {
		length := penstock.Instant(l.window.Microseconds())
		d.ResetAfter, d.RetryAfter = time.Duration(length-v.Now%length)*time.Microsecond, 0
		if !d.Allowed {
			d.RetryAfter = d.ResetAfter
		}
	}
	v.Rule, v.Decision = a.Told.Rule, *d
}
