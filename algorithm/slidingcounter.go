package algorithm

// The sliding counter estimates a trailing window from two fixed ones: the previous count fades
// linearly while the current window passes. With e ticks of the window gone,
//
//	previous·(W−e) + (current+cost)·W ≤ L·W
//
// never lets the estimate pass L. The estimate assumes that the previous window's calls were
// spread evenly: in the worst case a trailing window holds just under 2·L.

func (m *Meter) advanceCounter(s State, now Instant) (_ State, repaired bool) {
	frozen, wrong := ahead(s.At, now, m.Window)
	if frozen {
		s.At -= s.At % Instant(m.Window)
		return s, false
	}
	start := now - now%Instant(m.Window)
	switch {
	case wrong:
		return State{At: start, A: s.A, B: s.B}, true
	case s.At >= start:
		return State{At: start, A: s.A, B: s.B}, false
	case s.At >= start-Instant(m.Window):
		return State{At: start, B: s.A}, false
	}
	return State{At: start}, false
}

// counterLeft returns W−e, the ticks that are left of the window; all of them while time stands still.
func (m *Meter) counterLeft(s State, now Instant) int64 {
	return m.Ticks - int64(max(now, s.At)-s.At)/m.Tick
}

func (m *Meter) counterPasses(s State, now Instant, cost int64) bool {
	return s.B*m.counterLeft(s, now)+(s.A+cost)*m.Ticks <= m.Full
}

func (m *Meter) counterUsed(s State, now Instant) int64 {
	return s.A + ceilDiv(s.B*m.counterLeft(s, now), m.Ticks)
}

// counterFree returns when the cost first passes: in this window once the previous count has faded
// enough, or in the next, where today's current is the one that fades.
func (m *Meter) counterFree(s State, now Instant, cost int64) Instant {
	if s.A+cost <= m.Count && s.B > 0 {
		if e := m.Ticks - (m.Count-s.A-cost)*m.Ticks/s.B; e < m.Ticks {
			return s.At + Instant(e*m.Tick)
		}
	}
	next := s.At + Instant(m.Window)
	if s.A == 0 || cost > m.Count {
		return next
	}
	return next + Instant(max(0, m.Ticks-(m.Count-cost)*m.Ticks/s.A)*m.Tick)
}

func (m *Meter) counterClear(s State) Instant {
	if s.A > 0 {
		return s.At + Instant(2*m.Window)
	}
	return s.At + Instant(m.Window)
}
