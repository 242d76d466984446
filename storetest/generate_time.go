package storetest

import (
	"time"

	"github.com/penstock-io/penstock"
)

const day = penstock.Instant(24 * time.Hour / time.Microsecond)

// when picks the next instant.
func (g *generator) when() penstock.Instant {
	m := pick(g.r, g.meters...)
	window := penstock.Instant(m.Window)
	then := g.now
	if g.calm && often(g.r, 99) {
		return min(then+penstock.Instant(g.r.Int64N(3*m.Window/2/max(1, m.Count)+1)), latest)
	}
	if g.rule != nil && often(g.r, 15) {
		return min(max(g.recent()+g.wobble(), g.from), latest)
	}
	switch n := g.r.IntN(100); {
	case n < 30: // again at once
	case n < 45:
		then += penstock.Instant(g.r.Int64N(3))
	case n < 60: // about as fast as the limit allows
		then += penstock.Instant(g.r.Int64N(2*m.Window/max(1, m.Count) + 1))
	case n < 66:
		then += penstock.Instant(g.r.Int64N(2 * m.Window))
	case n < 86:
		then = g.promised() + g.wobble()
	case n < 92: // about the edge of a window, a tick or a period
		then = g.edge(m) + g.wobble()
	case n < 95: // back a little
		then -= penstock.Instant(g.r.Int64N(m.Window) + 1)
	case n < 97: // about as far back as a stored instant is believed
		then -= window + g.wobble()
	case n < 98:
		then -= penstock.Instant(g.r.Int64N(int64(400 * day)))
	case n < 99:
		then += penstock.Instant(g.r.Int64N(int64(400 * day)))
	default: // far back or forth, and exactly by days
		then += penstock.Instant(g.r.Int64N(9)-4) * day
	}
	return min(max(then, g.from), latest)
}

// wobble is one microsecond early, on the spot, or one late.
func (g *generator) wobble() penstock.Instant { return penstock.Instant(g.r.IntN(3) - 1) }

// promised is an instant that the last answer named.
func (g *generator) promised() penstock.Instant {
	if g.found == nil {
		return g.now
	}
	d := pick(g.r, g.found.Decisions...)
	after := pick(g.r, d.RetryAfter, d.RetryAfter, d.ResetAfter, d.Delay)
	if after == penstock.Never {
		after = d.ResetAfter
	}
	return g.now.Add(after)
}

func (g *generator) edge(m *penstock.Meter) penstock.Instant {
	if m.Kind == penstock.KindCalendar {
		starts := m.PeriodStarts(g.now)
		return pick(g.r, starts[:]...)
	}
	length := penstock.Instant(pick(g.r, m.Window, m.Window, m.Tick))
	return g.now - g.now%length + length*penstock.Instant(g.r.IntN(3))
}
