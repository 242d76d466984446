package penstock

import (
	"fmt"
	"sort"
	"time"
)

// A reservation is what a group took under its ticket's nonce, remembered so that it can be
// settled once the true cost is known, or released. An unsettled one stays charged. Leases of a
// concurrency limit can be released and renewed under their nonce without one.

// A Reservation is what a store remembers of one.
type Reservation struct {
	Nonce    uint64
	Until    Instant   // afterwards it cannot be settled any more
	Closed   bool      // settled or released; Receipts then tell the cost it was closed with
	Receipts []Receipt // of the charges with a cost
}

// Live tells whether the reservation can be believed at an instant. No store writes one that ends
// later than MaxReserve from now; a clock may have stepped back by as much again.
func (r *Reservation) Live(now Instant) bool {
	return r.Until > now && r.Until <= now.Add(2*MaxReserve)
}

// Receipt returns what was taken of the meter; the zero receipt if nothing was.
func (r *Reservation) Receipt(m *Meter) Receipt {
	for _, receipt := range r.Receipts {
		if receipt.Fingerprint == m.Fingerprint {
			return receipt
		}
	}
	return Receipt{Fingerprint: m.Fingerprint}
}

// Overage says what becomes of a true cost above the estimate.
type Overage uint8

const (
	OverageDeny  Overage = iota // the settlement is refused if the difference does not pass
	OverageAllow                // what fits is charged, the rest forgiven
	OverageDebt                 // charged as far as the limit's overdraft goes, the rest forgiven
)

var overageNames = [...]string{"deny", "allow", "debt"}

func (o Overage) String() string { return nameOf(overageNames[:], o, "Overage") }

// UnmarshalText reads "deny", "allow" or "debt".
func (o *Overage) UnmarshalText(text []byte) error {
	return parseName(o, overageNames[:], text, "overage")
}

func (o Overage) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Verb is what a settlement does.
type Verb uint8

const (
	Settle  Verb = iota // charge the true cost instead of the estimate, give leases back
	Release             // give everything back
	Renew               // have more time: the reservation from now on, and leases anew
)

var verbNames = [...]string{"settle", "release", "renew"}

func (v Verb) String() string { return nameOf(verbNames[:], v, "Verb") }

const (
	MaxReserve = 24 * time.Hour // how long a reservation may stay open at a time

	// MaxReservedLog bounds the log that can give something back: its later entries are
	// written anew.
	MaxReservedLog = 10_000
)

// A Settlement is about what one group took under a nonce. It takes effect once: the same again
// changes nothing, and anything else is refused.
type Settlement struct {
	Now     Instant // as a ticket's
	Subject Subject
	Nonce   uint64
	Verb    Verb

	// Charges are those of the group. With Settle, their costs are the true ones; a lease's
	// cost is of no account.
	Charges []Charge

	Overage Overage
	TTL     time.Duration // with Renew, of a reservation; leases have their limit's

	// Lost, with Release, says that the reply to the ticket was lost: the ticket may have been taken,
	// or not, or may still arrive. A store that can receive tickets late takes nothing for one that
	// arrives within [LostFor] after its release, and answers it with [ErrClosed].
	Lost bool
}

// LostFor is for how long a store remembers that a lost ticket was released. It is longer than the
// operating system resends what was written to a connection that has been closed since.
const LostFor = 2 * time.Minute

// Settled is what became of a settlement. Reuse one to settle without allocating.
type Settled struct {
	Now       Instant
	Allowed   bool       // false where the overage was denied; the reservation is then still open
	Again     bool       // it had been done before, and nothing was changed
	Until     Instant    // with Renew, how long it is open now
	Decisions []Decision // one for each charge: the numbers as they are now
}

// Validate reports what no store could settle.
func (s *Settlement) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w %v: %s", ErrInvalid, s.Verb, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Verb > Renew:
		return fail("must be one of %v", verbNames)
	case s.Overage > OverageDebt:
		return fail("overage %v must be one of %v", s.Overage, overageNames)
	case s.Now < 0 || s.Now > MaxInstant:
		return fail("now %d is not from 0 to %d µs", s.Now, MaxInstant)
	case s.Nonce == 0:
		return fail("no nonce to name what is meant")
	case len(s.Charges) == 0 || len(s.Charges) > MaxCharges:
		return fail("%d charges, must be from 1 to %d", len(s.Charges), MaxCharges)
	case s.Lost && s.Verb != Release:
		return fail("only a release can be of a lost ticket")
	case s.Verb == Renew && (s.TTL < MinWindow || s.TTL > MaxReserve):
		return fail("ttl %v is not from %v to %v", s.TTL, MinWindow, MaxReserve)
	}
	for i, c := range s.Charges {
		switch {
		case c.Meter == nil:
			return fail("charge %d has no meter", i)
		case c.Cost < 0 || c.Cost > MaxCount:
			return fail("charge %d: cost %d is not from 0 to %d", i, c.Cost, int64(MaxCount))
		}
		if err := c.Meter.Returns(); err != nil {
			return fail("charge %d: %v", i, err)
		}
		for k := range i {
			if s.Charges[k].Meter.Fingerprint == c.Meter.Fingerprint {
				return fail("charges %q twice", c.Meter)
			}
		}
	}
	return nil
}

// Cost returns what a charge of the settlement is to cost in the end.
func (s *Settlement) Cost(i int) int64 {
	if s.Verb == Release {
		return 0
	}
	return s.Charges[i].Cost
}

// OnlyLeases tells whether the settlement is about leases alone: those need no reservation.
func (s *Settlement) OnlyLeases() bool {
	for _, c := range s.Charges {
		if c.Meter.Kind != KindLeases {
			return false
		}
	}
	return true
}

// Repeats tells whether the settlement is the one that closed the reservation.
func (s *Settlement) Repeats(r *Reservation) bool {
	if s.Verb == Renew {
		return false
	}
	for i, c := range s.Charges {
		if c.Meter.Kind != KindLeases && r.Receipt(c.Meter).Cost != s.Cost(i) {
			return false
		}
	}
	return true
}

// Returns says why what this meter took cannot be given back; nil means that it can.
func (m *Meter) Returns() error {
	switch {
	case m.Kind == KindLeaky:
		return fmt.Errorf("%q cannot be reserved: a leaver's place in a leaky bucket's queue passes unused, as the others keep their departure; a token_bucket can", m)
	case m.Kind == KindLog && m.CountDenied:
		return fmt.Errorf("%q cannot be reserved: a log that counts denied calls forgets earlier ones, which would be missing after a give-back; a sliding_window_counter can", m)
	case m.Kind == KindLog && m.Count > MaxReservedLog:
		return fmt.Errorf("%q cannot be reserved: giving back rewrites a log, so at most %d; a sliding_window_counter can", m, MaxReservedLog)
	}
	return nil
}

// Resettle replaces a fixed-size state's charge by the true cost. A give-back counts when it is
// given back, and is void once the charge's window is over. ok is false if the overage is denied;
// the state is then only brought up to now.
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
			s.A = max(0, s.A-cost*m.Ticks)
		}
	case KindCounter:
		if at >= s.At && at < end {
			s.A = max(0, s.A-cost)
		} else if at < s.At && at >= s.At-Instant(m.Window) {
			s.B = max(0, s.B-cost)
		}
	default: // windows and intervals
		if at >= s.At && at < end {
			s.A = max(0, s.A-cost)
		}
	}
	return s
}

// extra returns how much of a further cost is charged where so much is used.
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
		return log, true // the charge has no date of its own any more
	}
	// What was charged at one instant leaves the window together, so the give-back may come from
	// any of its entries; the totals of all that follow shrink by it.
	end := sort.Search(len(log), func(i int) bool { return log[i].At > r.At })
	first := end
	for first > w.First && log[first-1].At == r.At {
		first--
	}
	if first == end {
		return log, true
	}
	total := log[end-1].N
	back := min(r.Cost-cost, total-log[first-1].N)
	kept := first
	for i := first; i < len(log); i++ {
		e := log[i]
		if i < end {
			e.N = min(e.N, total-back)
		} else {
			e.N -= back
		}
		// What counts nothing any more is not kept, but for the newest: time stands by it.
		if e.N > log[kept-1].N || i == len(log)-1 {
			log[kept] = e
			kept++
		}
	}
	return log[:kept], true
}

// DropLease gives back the lease of the nonce; it reports whether there was one that lived.
func (m *Meter) DropLease(leases []Entry, now Instant, nonce uint64) (_ []Entry, held bool) {
	i := heldBy(leases, nonce)
	if i < 0 || leases[i].At <= now {
		return leases, false
	}
	return append(leases[:i], leases[i+1:]...), true
}

// HoldsLease tells whether the nonce has a lease that lives.
func (m *Meter) HoldsLease(leases []Entry, now Instant, nonce uint64) bool {
	i := heldBy(leases, nonce)
	return i >= 0 && leases[i].At > now
}

// ReportSettled turns a state into what a settlement tells about its charge. more is what was to
// be charged beyond the reservation.
func (m *Meter) ReportSettled(s State, now Instant, more int64, ok bool) Decision {
	return m.Report(s, now, more, ok, false, 0)
}
