package server

import (
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-io/penstock/httplimit"
)

// bodyLogInterval is how often a body that cannot be read is logged, for each reason. All of
// them are counted.
const bodyLogInterval = time.Minute

// bodyWarnings count and log the bodies that cannot be read for rules.
type bodyWarnings struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64 // by reason
	logged map[string]time.Time
}

func newBodyWarnings(log *slog.Logger) *bodyWarnings {
	return &bodyWarnings{log: log, counts: map[string]int64{}, logged: map[string]time.Time{}}
}

func (b *bodyWarnings) add(req *http.Request, problem *httplimit.BodyError) {
	if n, ok := b.count(problem.Reason, time.Now()); ok {
		b.log.Warn("body cannot be read for rules",
			"denied", problem.Denied, "reason", problem.Reason, "error", problem.Err, "method", req.Method, "path", req.URL.Path, "total", n)
	}
}

// count counts a warning, and reports whether it is to be logged.
func (b *bodyWarnings) count(reason string, now time.Time) (total int64, isLogged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[reason]++
	last, ok := b.logged[reason]
	if isLogged = !ok || now.Sub(last) >= bodyLogInterval; isLogged {
		b.logged[reason] = now
	}
	return b.counts[reason], isLogged
}

// totals returns how many there were, by reason.
func (b *bodyWarnings) totals() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}
