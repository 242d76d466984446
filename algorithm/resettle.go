package algorithm

import (
	"fmt"
	"sort"

	"github.com/penstock-io/penstock/internal/enum"
)

// Overage says what happens to a true cost above the estimate.
type Overage uint8

const (
	OverageDeny  Overage = iota // the settlement is refused if the difference does not pass
	OverageAllow                // what fits is charged, the rest forgiven
	OverageDebt                 // charged as far as the limit's overdraft goes, the rest forgiven
)

var overageNames = [...]string{"deny", "allow", "debt"}

func (o Overage) String() string { return enum.Name(overageNames[:], o, "Overage") }

// UnmarshalText reads "deny", "allow" or "debt".
func (o *Overage) UnmarshalText(text []byte) error {
	return enum.Parse(o, overageNames[:], text, "overage")
}

func (o Overage) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// MaxReservedLog bounds a log that can give something back, because a give-back rewrites all later entries.
const MaxReservedLog = 10_000

// Returns returns why what this meter took cannot be given back; nil means that it can.
func (m *Meter) Returns() error {
	switch {
	case m.Kind == KindLeaky:
		return fmt.Errorf("%q cannot be reserved: a released place in the queue of a leaky bucket stays unused; use a token_bucket", m)
	case m.Kind == KindLog && m.CountDenied:
		return fmt.Errorf("%q cannot be reserved: a log that counts denied requests drops earlier ones, which a release could not restore; use a sliding_window_counter", m)
	case m.Kind == KindLog && m.Count > MaxReservedLog:
		return fmt.Errorf("%q cannot be reserved: a release rewrites the log, so at most %d; use a sliding_window_counter", m, MaxReservedLog)
	}
	return nil
}

// CanRefund reports whether the meter can give back without a reservation.
func (m *Meter) CanRefund() bool { return m.Kind.Fixed() && m.Kind != KindLeaky }

// Refund gives a cost back from what a fixed-size state holds now, but not from an earlier window.
func (m *Meter) Refund(s State, now Instant, cost int64) State {
	s, _, _ = m.Weigh(s, now, 0, 0)
	return m.giveBack(s, now, max(now, s.At), m.RefundedCost(cost))
}

// RefundedCost caps a cost at what a state can hold, so that its product with a bucket's ticks cannot
// overflow.
func (m *Meter) RefundedCost(cost int64) int64 { return min(cost, m.Capacity+m.Overdraft) }

// Resettle replaces a charge of a fixed-size state with the true cost. A refund counts from when it is given
// back, and is void once the window of the charge has ended. ok is false if the overage is denied; the state
// is then only brought up to now.
func (m *Meter) Resettle(s State, now Instant, r Receipt, cost int64, o Overage) (_ State, ok bool) {
	s, _, _ = m.Weigh(s, now, 0, 0)
	if cost <= r.Cost {
		return m.giveBack(s, now, r.At, r.Cost-cost), true
	}
	amount, ok := m.extra(m.used(s, now), cost-r.Cost, o)
	if !ok {
		return s, false
	}
	return m.Charge(s, amount), true
}

func (m *Meter) giveBack(s State, now, at Instant, cost int64) State {
	end := s.At + Instant(m.Window) // a charge after it was dated by a wrong clock
	switch m.Kind {
	case KindBucket:
		if latest := max(now, s.At); at <= latest && at+Instant(m.Window) > latest {
			s.Used = max(0, s.Used-cost*m.Ticks)
		}
	case KindCounter:
		if at >= s.At && at < end {
			s.Used = max(0, s.Used-cost)
		} else if at < s.At && at >= s.At-Instant(m.Window) {
			s.Previous = max(0, s.Previous-cost)
		}
	default: // windows and intervals
		if at >= s.At && at < end {
			s.Used = max(0, s.Used-cost)
		}
	}
	return s
}

// extra returns how much of a further cost is charged when used is already in use.
func (m *Meter) extra(used, cost int64, o Overage) (amount int64, ok bool) {
	room := m.Capacity - used
	switch o {
	case OverageDeny:
		return cost, cost <= room
	case OverageDebt:
		room += m.Overdraft
	}
	return min(cost, max(0, room)), true
}

// ResettleLog is Resettle for a log, which may need room for two more entries.
func (m *Meter) ResettleLog(log []Entry, now Instant, r Receipt, cost int64, o Overage) (_ []Entry, ok bool) {
	w := m.WeighLog(log, now, 0)
	if cost > r.Cost {
		amount, ok := m.extra(w.Sum, cost-r.Cost, o)
		if !ok || amount == 0 {
			return log, ok
		}
		w.Passes = true
		return m.RecordLog(log, w, amount), true
	}
	if w.Repaired || cost == r.Cost {
		return log, true // the charge no longer has a date of its own
	}
	// Everything charged at one instant leaves the window together, so the give-back may come from any of its
	// entries. The totals of all later entries shrink by it.
	end := sort.Search(len(log), func(i int) bool { return log[i].At > r.At })
	first := end
	for first > w.First && log[first-1].At == r.At {
		first--
	}
	if first == end {
		return log, true
	}
	total := log[end-1].Value
	back := min(r.Cost-cost, total-log[first-1].Value)
	kept := first
	for i := first; i < len(log); i++ {
		e := log[i]
		if i < end {
			e.Value = min(e.Value, total-back)
		} else {
			e.Value -= back
		}
		// Drop entries that no longer count, except the newest: time must not run below it.
		if e.Value > log[kept-1].Value || i == len(log)-1 {
			log[kept] = e
			kept++
		}
	}
	return log[:kept], true
}

// DropLease releases the permit of the nonce. It reports whether there was one that had not expired.
func (m *Meter) DropLease(leases []Entry, now Instant, nonce uint64) (_ []Entry, held bool) {
	i := heldBy(leases, nonce)
	if i < 0 || leases[i].At <= now {
		return leases, false
	}
	return append(leases[:i], leases[i+1:]...), true
}

// HoldsLease reports whether the nonce has a permit that has not expired.
func (m *Meter) HoldsLease(leases []Entry, now Instant, nonce uint64) bool {
	i := heldBy(leases, nonce)
	return i >= 0 && leases[i].At > now
}

// ReportSettled converts a state into the decision of a settlement for its charge. more is what was to be
// charged beyond the reservation.
func (m *Meter) ReportSettled(s State, now Instant, more int64, ok bool) Decision {
	return m.Report(now, Result{State: s, Cost: more, Passes: ok})
}
