package engine

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// instant returns the current instant.
func (e *Engine) instant() penstock.Instant {
	if e.now != nil {
		return e.now()
	}
	return penstock.InstantOf(time.Now())
}

// instantFor returns the instant to match rules at: 0 if no rule expires, so that it does not matter. Stores
// have their own clocks, and reading another one is a large part of the cost of a decision in memory.
func (e *Engine) instantFor(s *rules.Snapshot) penstock.Instant {
	known := e.expiry.Load()
	if known == nil || known.of != s {
		known = &expiry{s, expires(s)}
		e.expiry.Store(known)
	}
	if e.now == nil && !known.some {
		return 0
	}
	return e.instant()
}

// expiry says whether any of the rules expire.
type expiry struct {
	of   *rules.Snapshot
	some bool
}

func expires(s *rules.Snapshot) bool {
	for _, r := range s.Rules {
		if !r.Expires.IsZero() {
			return true
		}
		for i := range r.Overrides {
			if !r.Overrides[i].Expires.IsZero() {
				return true
			}
		}
	}
	return false
}
