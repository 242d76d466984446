package algorithm

import (
	"slices"
	"sort"
)

// The sliding log remembers when each request passed and is exact: at any instant the costs recorded in
// (now−W, now] sum to at most L.
//
// Each entry holds the running total of costs up to and including its own. Entry 0 is only the base that the
// others are counted from. So the sum of a window is one subtraction, binary search finds what has left the
// window, and a denied request does not need to clean up. What has left the window when an entry is recorded
// never comes back: time does not run below the newest entry.

// An Entry is one entry of a log, or one permit of a concurrency limit.
type Entry struct {
	At    Instant // when it was recorded; for a permit, when it expires
	Value int64   // the running total of costs; for a permit, its nonce
}

// LogWeight is the decision of a log for a cost, and where the cost would be recorded.
type LogWeight struct {
	Passes   bool
	Repaired bool    // a wrong clock wrote the log: Record first folds it into one entry dated now
	At       Instant // the instant to record
	Sum      int64   // of the entries that count
	First    int     // the first entry that counts; the one before it is the base
}

// WeighLog reports whether the cost passes. The log may be empty.
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

// logLeft returns the latest instant that has left the window. Instant 0 always has: see record.
func (m *Meter) logLeft(now Instant) Instant { return max(0, now-Instant(m.Window)) }

// LogAmount is [Meter.Amount] for a log that was weighed.
func (m *Meter) LogAmount(w LogWeight, c Charge) int64 {
	if !c.Overdraw {
		return c.Cost
	}
	return m.within(w.Sum, c.Cost)
}

// RecordLog appends the cost and returns the log, which may need room for two more entries. A cost of 0 only
// repairs what a wrong clock wrote.
func (m *Meter) RecordLog(log []Entry, w LogWeight, cost int64) []Entry {
	return m.record(log, w, cost, false)
}

// RecordDenied is RecordLog for a cost that was denied, by this limit or another, and is counted anyway. It
// keeps no more than brings the sum to one above the limit.
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
	// Moving only when more than half is dead keeps the cost per request constant.
	if dead := w.First - 1; dead*2 > len(log) {
		log = log[:copy(log, log[dead:])]
		w.First = 1
	}
	if isGivenBack(log) {
		log = log[:len(log)-1]
		w.First = min(w.First, len(log))
	}
	total := log[len(log)-1].Value + cost
	log = append(log, Entry{At: w.At, Value: total})
	if denied {
		base := w.First - 1
		for ; total-log[base+1].Value > m.Count; base++ {
			log[base+1].At = 0 // has left every window
		}
		// What is left of the oldest entry beyond that decides nothing: while it counts, all is denied. A debt stays.
		if most := max(m.Count+1, w.Sum); total-log[base].Value > most {
			log[base].Value = total - most
		}
	}
	return log
}

// isGivenBack reports whether the newest entry was given back entirely.
func isGivenBack(log []Entry) bool {
	n := len(log)
	return n > 1 && log[n-1].Value == log[n-2].Value
}

// LogState summarises a log after a request: see [State].
func (m *Meter) LogState(log []Entry, now Instant, cost int64, passes bool) State {
	w := m.WeighLog(log, now, cost)
	if w.Sum == 0 {
		return State{}
	}
	s := State{At: log[len(log)-1].At, Used: w.Sum}
	if isGivenBack(log) {
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

// FillLog adds to a log what another log proves by denying a cost until the entry at an instant has left its
// window: from that entry on, the other log holds too much for the cost to pass. Entries that the log already
// has from then on count towards it. The log may need room for two more entries.
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
