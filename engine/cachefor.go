package engine

import (
	"slices"
	"time"

	"github.com/penstock-io/penstock"
)

// maxCacheFor bounds how long a denial is cached, also one that waiting does not end.
const maxCacheFor = time.Hour

// cacheFor returns how long the client of the engine can give this denial to every request with the same values of the
// attributes in CacheBy: until something other than an operator can allow one of them. It is 0 if a rule would miss
// those requests, or looks at an attribute that is not in CacheBy.
func (w *workspace) cacheFor(c *penstock.Call, v *penstock.Verdict) time.Duration {
	switch {
	case v.Allowed:
		return 0
	case w.block != nil:
		if slices.Contains(c.CacheBy, w.block.Attribute) {
			return min(v.Decision.RetryAfter, maxCacheFor)
		}
		return 0
	case v.Reason == penstock.ReasonDenyList:
		if w.snapshot.DeniesBy(c.CacheBy) {
			return maxCacheFor
		}
		return 0
	case v.Quality != penstock.QualityExact, v.Reason != penstock.ReasonOverLimit && v.Reason != penstock.ReasonBanned:
		return 0
	}
	until := v.Now
	for i := range w.turn.Ticket.Groups {
		if w.seesDenials(i, v.Now) {
			return 0
		}
		if firm := w.turn.Outcome.Groups[i].FirmUntil; firm > until && w.snapshot.LimitsBy(w.asked[i].rule, c.CacheBy) {
			until = firm
		}
	}
	return min(until, v.Now.Add(maxCacheFor)).Sub(v.Now)
}

// seesDenials reports whether a rule has to see requests that are denied: it is a shadow rule, or they are counted, are
// strikes, or may be duplicates.
func (w *workspace) seesDenials(group int, now penstock.Instant) bool {
	g := &w.turn.Ticket.Groups[group]
	if g.Alone || g.Guarded() && w.turn.Outcome.Groups[group].BannedUntil <= now {
		return true
	}
	for i := range g.Charges {
		if g.Charges[i].Meter.CountDenied {
			return true
		}
	}
	return false
}
