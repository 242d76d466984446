package algorithm

// The sliding counter estimates a trailing window from two fixed ones: the previous count fades
// linearly while the current window passes. With e ticks of the window gone,
//
//	previous·(W−e) + (current+cost)·W ≤ L·W
//
// keeps the estimate from exceeding L. The estimate assumes that the requests of the previous window were
// spread evenly: in the worst case a trailing window holds just under 2·L.

func (m *Meter) advanceCounter(s State, now Instant) (_ State, repaired bool) {
	frozen, wrong := ahead(s.At, now, m.Window)
	if frozen {
		s.At = m.byWindow.multiple(s.At)
		return s, false
	}
	start := m.byWindow.multiple(now)
	switch {
	case wrong:
		return State{At: start, Used: s.Used, Previous: s.Previous}, true
	case s.At >= start:
		return State{At: start, Used: s.Used, Previous: s.Previous}, false
	case s.At >= start-Instant(m.Window):
		return State{At: start, Previous: s.Used}, false
	}
	return State{At: start}, false
}

// counterLeft returns W−e, the ticks left of the window; all of them while time is frozen.
func (m *Meter) counterLeft(s State, now Instant) int64 {
	return m.Ticks - m.wholeTicks(max(now, s.At)-s.At)
}

func (m *Meter) counterPasses(s State, now Instant, cost int64) bool {
	return s.Previous*m.counterLeft(s, now)+(s.Used+cost)*m.Ticks <= m.Full
}

func (m *Meter) counterUsed(s State, now Instant) int64 {
	return s.Used + m.byTicks.ceil(s.Previous*m.counterLeft(s, now))
}

// counterFree returns when the cost first passes: in this window once the previous count has faded enough, or
// in the next, where the current count fades.
func (m *Meter) counterFree(s State, now Instant, cost int64) Instant {
	if s.Used+cost <= m.Count && s.Previous > 0 {
		if e := m.Ticks - (m.Count-s.Used-cost)*m.Ticks/s.Previous; e < m.Ticks {
			return s.At + Instant(e*m.Tick)
		}
	}
	next := s.At + Instant(m.Window)
	if s.Used == 0 || cost > m.Count {
		return next
	}
	return next + Instant(max(0, m.Ticks-(m.Count-cost)*m.Ticks/s.Used)*m.Tick)
}

func (m *Meter) counterClear(s State) Instant {
	if s.Used > 0 {
		return s.At + Instant(2*m.Window)
	}
	return s.At + Instant(m.Window)
}
