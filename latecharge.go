package penstock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A LateCharger charges requests that were admitted without it.
type LateCharger interface {
	// ChargeLate adds to the subject's counters what still counts of the late charge. It takes
	// effect once, by its nonce, and so may be sent again after an error. It never denies: an amount
	// is cut where the counter reaches the limit's capacity plus its overdraft.
	ChargeLate(ctx context.Context, c *LateCharge) error
}

// A LateCharge is what one node admitted for a subject while the store did not answer and that the
// store has certainly not charged.
type LateCharge struct {
	Now     Instant // as a ticket's
	Subject Subject
	Nonce   uint64
	Amounts []LateAmount
}

// A LateAmount is what was admitted under one limit, as a counter that holds only that, dated by the
// store's clock. The store brings the counter up to now before it adds it: windows that have ended
// count nothing, buckets have drained since.
type LateAmount struct {
	Meter *Meter
	State State   // of a fixed-size kind
	Log   []Entry // of a log, as [Meter.RecordLog] writes it
}

const (
	// MaxLateEntries bounds the log of a late amount, its base entry included, and how many entries
	// of the shared log a late one may be inserted before.
	MaxLateEntries = 1_000

	// LateChargeTTL is how long a store remembers a late charge, so that sending it again changes
	// nothing. It may forget sooner where nothing of the charge counts any more.
	LateChargeTTL = 24 * time.Hour
)

// CanChargeLate reports whether the meter's admissions can be charged afterwards. Permits have been
// given back or have expired by then, and requests that a leaky bucket let go have left.
func (m *Meter) CanChargeLate() bool { return m.Kind != KindLeases && m.Kind != KindLeaky }

// Validate reports what no store can charge.
func (c *LateCharge) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w late charge: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Now < 0 || c.Now > MaxInstant:
		return fail("now %d is not from 0 to %d µs", c.Now, MaxInstant)
	case c.Nonce == 0:
		return fail("no nonce")
	case len(c.Amounts) == 0 || len(c.Amounts) > MaxCharges:
		return fail("%d amounts, must be from 1 to %d", len(c.Amounts), MaxCharges)
	}
	for i, a := range c.Amounts {
		switch {
		case a.Meter == nil:
			return fail("amount %d has no meter", i)
		case !a.Meter.CanChargeLate():
			return fail("amount %d: %q cannot be charged afterwards", i, a.Meter)
		case a.State.At < 0 || a.State.At > MaxInstant || a.State.A < 0 || a.State.B < 0:
			return fail("amount %d: no counter of %q is in state %+v", i, a.Meter, a.State)
		case len(a.Log) > MaxLateEntries:
			return fail("amount %d: %d log entries, at most %d", i, len(a.Log), MaxLateEntries)
		}
		for k, e := range a.Log {
			if e.At < 0 || e.At > MaxInstant || e.N < 0 || k > 0 && e.N < a.Log[k-1].N {
				return fail("amount %d: log entry %d is %+v; totals must not fall and instants must be from 0 to %d", i, k, e, MaxInstant)
			}
		}
		for k := range i {
			if c.Amounts[k].Meter.Fingerprint == a.Meter.Fingerprint {
				return fail("charges %q twice", a.Meter)
			}
		}
	}
	return nil
}

// TTL returns for how many µs the charge has to be remembered: until nothing of it counts any more,
// or it is not sent again.
func (c *LateCharge) TTL() (ttl int64) {
	for _, a := range c.Amounts {
		ttl = max(ttl, a.Meter.Life)
	}
	return min(ttl, LateChargeTTL.Microseconds())
}

// AddLate adds a late counter to a fixed-size state and reports whether that changed what it counts.
// The state is brought up to now. The late counter is drained up to the same instant. Where it is
// dated later than that, the node's clock was ahead, and it counts as of now.
func (m *Meter) AddLate(s, late State, now Instant) (_ State, added bool) {
	s, _, _ = m.Weigh(s, now, 0, 0)
	late.A, late.B = min(late.A, m.Most), min(late.B, m.Most)
	before := s
	switch m.Kind {
	case KindCounter:
		if late.At < s.At && late.At >= s.At-Instant(m.Window) {
			late.A, late.B = 0, late.A
		} else if late.At < s.At {
			late.A, late.B = 0, 0
		}
		s = m.addLateCounter(s, late, now)
	case KindBucket:
		s.A = max(s.A, min(s.A+m.drained(late, s.At), m.Most))
	case KindInterval:
		refills := int64(s.At)/m.Window - int64(min(late.At, s.At))/m.Window
		if refills < m.Drain {
			s.A = max(s.A, min(s.A+max(0, late.A-refills*m.Count), m.Most))
		}
	default: // windows
		if late.At >= s.At {
			s.A = max(s.A, min(s.A+late.A, m.Most))
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
	return max(0, late.A-elapsed*m.Count)
}

// addLateCounter adds to the current window first, as that counts longer, and to the previous one as
// much as still has room while it fades.
func (m *Meter) addLateCounter(s, late State, now Instant) State {
	s.A += min(late.A, max(0, m.Most-m.counterUsed(s, now)))
	room := max(0, m.Most-s.A) * m.Ticks / m.counterLeft(s, now)
	s.B = max(s.B, min(s.B+late.B, m.Most, room))
	return s
}

// LateEntries returns those of a late log that a log has room for and that still count, oldest first;
// N is the cost of each, not a running total. The newest are kept, up to capacity plus overdraft and to
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
		if cost := min(late[i].N-late[i-1].N, room); cost > 0 {
			entries = append(entries, Entry{At: at, N: cost})
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
		more += e.N
	}
	// From the newest to the oldest, each to its place; totals are those of all that are older.
	old := len(log) - 1
	log = append(log, entries...)
	for to, k := len(log)-1, len(entries)-1; k >= 0; to-- {
		if old > 0 && log[old].At > entries[k].At {
			log[to] = Entry{log[old].At, log[old].N + more}
			old--
			continue
		}
		log[to] = Entry{entries[k].At, log[old].N + more}
		more -= entries[k].N
		k--
	}
	return log
}
