package algorithm

// A token bucket is stored as what is missing from it, so that the zero state is a full bucket. The
// continuous one counts token × tick: L tokens per W ticks is then L units a tick, and nothing is divided
// before a result is reported. It is the generic cell rate algorithm in another notation.

func (m *Meter) advanceBucket(s State, now Instant) (_ State, repaired bool) {
	s.Used = min(s.Used, m.Most) // a bucket that was made smaller is empty, with at most the allowed debt
	frozen, wrong := ahead(s.At, now, m.Window)
	switch {
	case frozen:
		return s, false
	case wrong:
		return State{At: now, Used: s.Used}, true
	}
	return State{At: now, Used: m.missingAt(s, now)}, false
}

// missingAt returns what is missing at an instant that is not before the state's.
func (m *Meter) missingAt(s State, now Instant) int64 {
	elapsed := m.wholeTicks(now) - m.wholeTicks(s.At)
	if elapsed >= m.Drain { // also keeps the product below from overflowing
		return 0
	}
	return max(0, min(s.Used, m.Most)-elapsed*m.Count)
}

// bucketClear returns when a bucket that misses this much at an instant is full.
func (m *Meter) bucketClear(at Instant, used int64) Instant {
	return m.bucketAt(at, m.byCount.ceil(used))
}

// bucketAt returns the first instant that is the given number of ticks after at.
func (m *Meter) bucketAt(at Instant, ticks int64) Instant {
	if ticks <= 0 {
		return at
	}
	return Instant((m.wholeTicks(at) + ticks) * m.Tick)
}

// wholeTicks returns the ticks up to an instant, or between two, rounded down. Dividing by a constant is much cheaper
// than by Tick, which is one of these.
func (m *Meter) wholeTicks(i Instant) int64 {
	switch m.Tick {
	case 1:
		return int64(i)
	case 1000:
		return int64(i) / 1000
	}
	return int64(i) / 1_000_000
}

// An interval bucket gets Count tokens at every multiple of the window since the epoch, not counted from the
// first request; what does not fit overflows.

func (m *Meter) advanceInterval(s State, now Instant) (_ State, repaired bool) {
	s.Used = min(s.Used, m.Most)
	frozen, wrong := ahead(s.At, now, m.Window)
	if frozen {
		s.At = m.byWindow.multiple(s.At)
		return s, false
	}
	interval := m.byWindow.floor(int64(now))
	start := Instant(interval * m.Window)
	if wrong {
		return State{At: start, Used: s.Used}, true
	}
	refills := interval - m.byWindow.floor(int64(s.At))
	if refills >= m.Drain {
		return State{At: start}, false
	}
	return State{At: start, Used: max(0, s.Used-refills*m.Count)}, false
}
