package algorithm

import "slices"

// MaxLateEntries bounds the log of a late amount, its base entry included, and how many entries
// of the shared log a late one may be inserted before.
const MaxLateEntries = 1_000

// CanChargeLate reports whether the meter's admissions can be charged afterwards. Permits have been
// given back or have expired by then, and requests that a leaky bucket let go have left.
func (m *Meter) CanChargeLate() bool { return m.Kind != KindLeases && m.Kind != KindLeaky }

// AddLate adds a late counter to a fixed-size state and reports whether that changed what it counts.
// The state is brought up to now. The late counter is drained up to the same instant. Where it is
// dated later than that, the node's clock was ahead, and it counts as of now.
func (m *Meter) AddLate(s, late State, now Instant) (_ State, added bool) {
	s, _, _ = m.Weigh(s, now, 0, 0)
	late.Used, late.Previous = min(late.Used, m.Most), min(late.Previous, m.Most)
	before := s
	switch m.Kind {
	case KindCounter:
		if late.At < s.At && late.At >= s.At-Instant(m.Window) {
			late.Used, late.Previous = 0, late.Used
		} else if late.At < s.At {
			late.Used, late.Previous = 0, 0
		}
		s = m.addLateCounter(s, late, now)
	case KindBucket:
		s.Used = max(s.Used, min(s.Used+m.drained(late, s.At), m.Most))
	case KindInterval:
		refills := int64(s.At)/m.Window - int64(min(late.At, s.At))/m.Window
		if refills < m.Drain {
			s.Used = max(s.Used, min(s.Used+max(0, late.Used-refills*m.Count), m.Most))
		}
	default: // windows
		if late.At >= s.At {
			s.Used = max(s.Used, min(s.Used+late.Used, m.Most))
		}
	}
	return s, s != before
}

// drained returns what is left at an instant of a late bucket.
func (m *Meter) drained(late State, at Instant) int64 {
	elapsed := m.ticksAt(at) - m.ticksAt(min(late.At, at))
	if elapsed >= m.Drain {
		return 0
	}
	return max(0, late.Used-elapsed*m.Count)
}

// addLateCounter adds to the current window first, as that counts longer, and to the previous one as
// much as still has room while it fades.
func (m *Meter) addLateCounter(s, late State, now Instant) State {
	s.Used += min(late.Used, max(0, m.Most-m.counterUsed(s, now)))
	room := max(0, m.Most-s.Used) * m.Ticks / m.counterLeft(s, now)
	s.Previous = max(s.Previous, min(s.Previous+late.Previous, m.Most, room))
	return s
}

// LateEntries returns those of a late log that a log has room for and that still count, oldest first;
// Value is the cost of each, not a running total. The newest are kept, up to capacity plus overdraft and to
// MaxLog, so that the log stays that short. Entries older than the last
// MaxLateEntries of the log are left out: inserting them would rewrite more than that.
func (m *Meter) LateEntries(log, late []Entry, now Instant) (entries []Entry) {
	w := m.WeighLog(log, now, 0)
	at, left, from := w.At, m.logLeft(w.At), Instant(0)
	if older := len(log) - w.First - MaxLateEntries; older > 0 && !w.Repaired {
		from = log[w.First+older-1].At
	}
	room := min(m.Most, MaxLog) - w.Sum
	for i := len(late) - 1; i > 0 && room > 0; i-- {
		at = min(at, late[i].At)
		if at <= left || at < from {
			break
		}
		if cost := min(late[i].Value-late[i-1].Value, room); cost > 0 {
			entries = append(entries, Entry{At: at, Value: cost})
			room -= cost
		}
	}
	slices.Reverse(entries)
	return entries
}

// InsertLate inserts what LateEntries returned into the log, which needs room for one more entry than
// that, and for two if it is empty.
func (m *Meter) InsertLate(log, entries []Entry, now Instant) []Entry {
	if len(entries) == 0 {
		return log
	}
	w := m.WeighLog(log, now, 0)
	switch {
	case w.Repaired:
		log = m.RecordLog(log, w, 0)
	case len(log) == 0:
		log = append(log, Entry{})
	default: // what has left the window might come back: time stands by an entry older than now
		log = log[:copy(log, log[w.First-1:])]
	}
	more := int64(0)
	for _, e := range entries {
		more += e.Value
	}
	// From the newest to the oldest, each to its place; totals are those of all that are older.
	old := len(log) - 1
	log = append(log, entries...)
	for to, k := len(log)-1, len(entries)-1; k >= 0; to-- {
		if old > 0 && log[old].At > entries[k].At {
			log[to] = Entry{log[old].At, log[old].Value + more}
			old--
			continue
		}
		log[to] = Entry{entries[k].At, log[old].Value + more}
		more -= entries[k].Value
		k--
	}
	return log
}
