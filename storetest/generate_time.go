package storetest

import (
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

const day = algorithm.Instant(24 * time.Hour / time.Microsecond)

// when picks the next instant.
func (g *generator) when() algorithm.Instant {
	m := pick(g.r, g.meters...)
	window := algorithm.Instant(m.Window)
	then := g.now
	if g.calm && often(g.r, 99) {
		return min(then+algorithm.Instant(g.r.Int64N(3*m.Window/2/max(1, m.Count)+1)), latest)
	}
	if g.rule != nil && often(g.r, 15) {
		return min(max(g.recent()+g.wobble(), g.from), latest)
	}
	switch n := g.r.IntN(100); {
	case n < 30: // again at once
	case n < 45:
		then += algorithm.Instant(g.r.Int64N(3))
	case n < 60: // about as fast as the limit allows
		then += algorithm.Instant(g.r.Int64N(2*m.Window/max(1, m.Count) + 1))
	case n < 66:
		then += algorithm.Instant(g.r.Int64N(2 * m.Window))
	case n < 86:
		then = g.promised() + g.wobble()
	case n < 92: // near the edge of a window, a tick or a period
		then = g.edge(m) + g.wobble()
	case n < 95: // back a little
		then -= algorithm.Instant(g.r.Int64N(m.Window) + 1)
	case n < 97: // about as far back as a stored instant is still believed
		then -= window + g.wobble()
	case n < 98:
		then -= algorithm.Instant(g.r.Int64N(int64(400 * day)))
	case n < 99:
		then += algorithm.Instant(g.r.Int64N(int64(400 * day)))
	default: // far back or forth, and by exact days
		then += algorithm.Instant(g.r.Int64N(9)-4) * day
	}
	return min(max(then, g.from), latest)
}

// wobble returns a microsecond early, exact, or a microsecond late.
func (g *generator) wobble() algorithm.Instant { return algorithm.Instant(g.r.IntN(3) - 1) }

// promised returns an instant that the last answer named.
func (g *generator) promised() algorithm.Instant {
	if g.found == nil {
		return g.now
	}
	d := pick(g.r, g.found.Decisions...)
	after := pick(g.r, d.RetryAfter, d.RetryAfter, d.ResetAfter, d.Delay)
	if after == algorithm.Never {
		after = d.ResetAfter
	}
	return g.now.Add(after)
}

func (g *generator) edge(m *algorithm.Meter) algorithm.Instant {
	if m.Kind == algorithm.KindCalendar {
		starts := m.PeriodStarts(g.now)
		return pick(g.r, starts[:]...)
	}
	length := algorithm.Instant(pick(g.r, m.Window, m.Window, m.Tick))
	return g.now - g.now%length + length*algorithm.Instant(g.r.IntN(3))
}
