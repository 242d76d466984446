package envoyratelimit

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/rls"
)

// answers says what became of each descriptor. An ordinary limit that is over denies the request;
// those in quota mode deny it only if all of them are over; one in shadow mode never does. Asked is the
// quality of what a store was asked.
func (l *Limiter) answers(matches []match, out *penstock.Outcome, asked penstock.Quality) *rls.Answers {
	a := &rls.Answers{Allowed: true, Each: make([]rls.Answer, len(matches))}
	quotas, spent := 0, 0
	at := 0
	for i := range matches {
		limit, each := matches[i].limit, &a.Each[i]
		if limit == nil || limit.unlimited {
			each.Unlimited = limit != nil
			each.Verdict = penstock.Verdict{Allowed: true, Reason: penstock.ReasonNoRule, Now: out.Now}
			each.Metadata = limit.passed(true)
			continue
		}
		d, now, quality := penstock.Decision{Allowed: true, Used: limit.count + 1}, matches[i].overAt, penstock.QualityExact
		if !matches[i].isOver {
			d, now, quality = out.Decisions[at], out.Now, asked
			at++
		}
		fill(each, limit, limit.decision(d, now, l.isTogether(limit)), now, quality)
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
	return a
}

// passed is the metadata of a descriptor that passes.
func (l *limit) passed(allowed bool) map[string]any {
	if l == nil || !allowed {
		return nil
	}
	return l.metadata
}

// decision reads a counter as that of the limit. It is over when more was counted than the limit, so
// that a peek at one that is just used up passes.
func (l *limit) decision(d penstock.Decision, now penstock.Instant, together bool) penstock.Decision {
	if !together {
		d.Allowed = d.Allowed && d.Used <= l.count
		d.Limit, d.Remaining = l.count, max(0, l.count-d.Used)
	}
	length := penstock.Instant(l.window.Microseconds())
	d.ResetAfter, d.RetryAfter = time.Duration(length-now%length)*time.Microsecond, 0
	if !d.Allowed {
		d.RetryAfter = d.ResetAfter
	}
	return d
}

func fill(a *rls.Answer, l *limit, d penstock.Decision, now penstock.Instant, quality penstock.Quality) {
	a.Name = l.name
	a.Verdict = penstock.Verdict{
		Allowed: d.Allowed || l.shadow, Quality: quality, Rule: l.policy(), Decision: d, Now: now,
		Limits: []penstock.LimitVerdict{{
			Rule: l.policy(), Policy: l.policy(), Shadow: l.shadow,
			Algorithm: penstock.FixedWindow, Count: l.count, Window: l.window, Decision: d,
		}},
	}
	if !a.Verdict.Allowed {
		a.Verdict.Reason = penstock.ReasonOverLimit
	}
	a.Told = &a.Verdict.Limits[0]
	a.Metadata = l.passed(a.Verdict.Allowed)
}
