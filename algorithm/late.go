package algorithm

import "slices"

// MaxLateEntries bounds the log of a late amount, including its base entry, and how many entries of the
// shared log may follow a late entry that is inserted.
const MaxLateEntries = 1_000

// CanChargeLate reports whether requests that the meter admitted can be charged later. By then, permits have
// been given back or have expired, and requests held by a leaky bucket have left.
func (m *Meter) CanChargeLate() bool { return m.Kind != KindLeases && m.Kind != KindLeaky }

// AddLate adds a late counter to a fixed-size state and reports whether that changed what it counts. It
// brings the state up to now and drains the late counter to the same instant. If the late counter is dated
// later than that, the node's clock was ahead, and it counts as of now.
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

// drained returns what is left of a late bucket at an instant.
func (m *Meter) drained(late State, at Instant) int64 {
	elapsed := m.wholeTicks(at) - m.wholeTicks(min(late.At, at))
	if elapsed >= m.Drain {
		return 0
	}
	return max(0, late.Used-elapsed*m.Count)
}

// addLateCounter adds to the current window first, because that counts longer, and to the previous one as
// much as it still has room for while it fades.
func (m *Meter) addLateCounter(s, late State, now Instant) State {
	s.Used += min(late.Used, max(0, m.Most-m.counterUsed(s, now)))
	room := max(0, m.Most-s.Used) * m.Ticks / m.counterLeft(s, now)
	s.Previous = max(s.Previous, min(s.Previous+late.Previous, m.Most, room))
	return s
}

// LateEntries returns the entries of a late log that a log has room for and that still count, oldest first.
// Value is the cost of each, not a running total. It keeps the newest, up to capacity plus overdraft and up
// to MaxLog, which bounds the log. It omits entries older than the last MaxLateEntries of the log: inserting
// them would rewrite more than that.
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

// InsertLate inserts what LateEntries returned into the log. The log needs room for one more entry than that,
// or two if it is empty.
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
	default: // drop what has left the window: if the newest entry is older than now, it could come back
		log = log[:copy(log, log[w.First-1:])]
	}
	more := int64(0)
	for _, e := range entries {
		more += e.Value
	}
	// Place entries from the newest to the oldest; each total includes all older entries.
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
