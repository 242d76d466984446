package algorithm

// A fixed window counts what passes between two boundaries. Windows start at multiples of their length since
// the epoch, not at the first request; calendar periods start by the clocks of their time zone.

func (m *Meter) advanceWindow(s State, now Instant) (_ State, repaired bool) {
	frozen, wrong := ahead(s.At, now, m.Window)
	if frozen {
		return s, false
	}
	start := m.windowStart(now)
	switch {
	case wrong:
		return State{At: start, Used: s.Used}, true
	case s.At < start:
		return State{At: start}, false
	}
	return s, false
}

func (m *Meter) windowStart(now Instant) Instant {
	if m.calendar != nil {
		start, _ := m.calendar.around(now)
		return max(0, start) // no store can represent a date before the epoch
	}
	return m.byWindow.multiple(now)
}

func (m *Meter) windowEnd(now Instant) Instant {
	if m.calendar != nil {
		_, end := m.calendar.around(now)
		return end
	}
	return m.byWindow.multiple(now) + Instant(m.Window)
}
