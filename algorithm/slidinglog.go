package algorithm

import (
	"slices"
	"sort"
)

// The sliding log remembers when each call passed and is exact: at any instant the costs recorded
// in (now−W, now] sum to at most L.
//
// Each entry holds the running total of costs up to and including its own, and entry 0 is only
// the base the others are counted from. So the sum of a window is one subtraction, what has left
// the window is found by binary search, and a denied call need not tidy up. What has left the
// window when an entry is recorded never comes back: time does not run below the newest entry.

// An Entry is one of a log, or one permit of a concurrency limit.
type Entry struct {
	At    Instant // when it was recorded; of a permit, when it expires
	Value int64   // the running total of costs; of a permit, its nonce
}

// LogWeight is what a log says to a cost, and where it would be recorded.
type LogWeight struct {
	Passes   bool
	Repaired bool    // a wrong clock wrote the log: Record first folds it into one entry dated now
	At       Instant // the instant to record
	Sum      int64   // of what counts
	First    int     // the first entry that counts; the one before it is the base
}

// WeighLog tells whether the cost passes. The log may be empty.
func (m *Meter) WeighLog(log []Entry, now Instant, cost int64) LogWeight {
	w := LogWeight{At: now, First: 1}
	if len(log) > 0 {
		last := log[len(log)-1]
		frozen, wrong := ahead(last.At, now, m.Window)
		if frozen || wrong {
			w.At = last.At
		}
		left := m.logLeft(w.At)
		w.First = 1 + sort.Search(len(log)-1, func(i int) bool { return log[i+1].At > left })
		w.Sum = last.Value - log[w.First-1].Value
		if wrong {
			w.At, w.Repaired = now, true
		}
	}
	w.Passes = w.Sum+cost <= m.Count
	return w
}

// logLeft returns the latest instant that has left the window. 0 always has: see record.
func (m *Meter) logLeft(now Instant) Instant { return max(0, now-Instant(m.Window)) }

// LogAmount is [Meter.Amount] for a log that was weighed.
func (m *Meter) LogAmount(w LogWeight, c Charge) int64 {
	if !c.Overdraw {
		return c.Cost
	}
	return m.within(w.Sum, c.Cost)
}

// RecordLog appends the cost and returns the log, which may need room for two more entries. A
// cost of 0 only mends what a wrong clock wrote.
func (m *Meter) RecordLog(log []Entry, w LogWeight, cost int64) []Entry {
	return m.record(log, w, cost, false)
}

// RecordDenied is RecordLog for a cost that was denied, by this limit or another, and counts all the
// same. No more is kept than makes one above the limit.
func (m *Meter) RecordDenied(log []Entry, w LogWeight, cost int64) []Entry {
	return m.record(log, w, min(cost, m.Count), true)
}

func (m *Meter) record(log []Entry, w LogWeight, cost int64, denied bool) []Entry {
	if w.Repaired {
		log = append(log[:0], Entry{}, Entry{At: w.At, Value: w.Sum})
		w.First = 1
	}
	if cost == 0 {
		return log
	}
	if len(log) == 0 {
		log = append(log, Entry{})
	}
	// Moving only when more is dead than alive makes it a constant cost per call.
	if dead := w.First - 1; dead*2 > len(log) {
		log = log[:copy(log, log[dead:])]
		w.First = 1
	}
	if spent(log) {
		log = log[:len(log)-1]
		w.First = min(w.First, len(log))
	}
	total := log[len(log)-1].Value + cost
	log = append(log, Entry{At: w.At, Value: total})
	if denied {
		for i := w.First; total-log[i].Value > m.Count; i++ {
			log[i].At = 0 // has left every window
		}
	}
	return log
}

// spent tells whether all of the newest entry was given back.
func spent(log []Entry) bool {
	n := len(log)
	return n > 1 && log[n-1].Value == log[n-2].Value
}

// LogState sums up a log after a call: see [State].
func (m *Meter) LogState(log []Entry, now Instant, cost int64, passes bool) State {
	w := m.WeighLog(log, now, cost)
	if w.Sum == 0 {
		return State{}
	}
	s := State{At: log[len(log)-1].At, Used: w.Sum}
	if spent(log) {
		s.At = log[len(log)-2].At
	}
	if w.Repaired { // not recorded: a peek
		s.At = now
	}
	if !passes && cost <= m.Count {
		if w.Repaired {
			s.FreeAt = now
		} else {
			total := log[len(log)-1].Value
			rest := log[w.First:]
			oldest := sort.Search(len(rest)-1, func(i int) bool { return total-rest[i].Value+cost <= m.Count })
			s.FreeAt = rest[oldest].At
		}
	}
	return s
}

// FillLog adds to a log what another one proves by denying a cost until the entry at an instant has
// left its window: from that entry on the other log holds too much for the cost to pass. Entries that
// the log already has from then on count towards it. The log may need room for two more entries.
func (m *Meter) FillLog(log []Entry, from Instant, cost int64) []Entry {
	least := m.Count - cost + 1
	if least <= 0 {
		return log
	}
	if len(log) == 0 {
		return append(log, Entry{}, Entry{At: from, Value: least})
	}
	at := 1
	for at < len(log) && log[at].At < from {
		at++
	}
	missing := least - (log[len(log)-1].Value - log[at-1].Value)
	if missing <= 0 {
		return log
	}
	log = slices.Insert(log, at, Entry{At: from, Value: log[at-1].Value})
	for i := at; i < len(log); i++ {
		log[i].Value += missing
	}
	return log
}
