package engine

import (
	"github.com/penstock-io/penstock"
)

// block denies a request if an operator has blocked one of its keys, and reports whether it did. It needs no store.
func (e *Engine) block(c *penstock.Call, v *penstock.Verdict, w *workspace) bool {
	b := e.blocks.Find(c)
	if b == nil {
		return false
	}
	now, until := e.instant(), penstock.InstantOf(b.Until)
	if until <= now {
		return false
	}
	w.block, v.Now = b, now
	v.Reason, v.BannedUntil = penstock.ReasonBlocked, until
	v.Decision.RetryAfter = until.Sub(now)
	return true
}
