package storetest

import (
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// settle carries out a valid settlement, all of it or nothing.
func (l ledger) settle(s *storage.Settlement, now algorithm.Instant, out *storage.SettleOutcome) error {
	*out = storage.SettleOutcome{Now: now, Allowed: true}
	w := settlementStep{Settlement: s, now: now, ledger: l, out: out}
	for _, c := range s.Charges {
		b := l.balances[w.account(c.Meter)]
		w.balances = append(w.balances, stateValue{state: b.state, entries: slices.Clone(b.entries)})
	}
	r, ok := l.reservations[reservationKey{s.Subject, s.Nonce}]
	switch {
	case s.Verb == storage.Refund:
		w.refund()
		return nil
	case !ok || !r.Live(now):
		return w.leases()
	case r.Closed && s.Repeats(&r):
		out.Again = true
		w.report(nil)
		return nil
	case r.Closed:
		return storage.ErrClosed
	case s.Verb == storage.Renew:
		return w.renew(r)
	}
	w.close(r)
	return nil
}

// refund returns cost to the current counters.
func (w *settlementStep) refund() {
	for i, c := range w.Charges {
		before, _, _ := c.Meter.Weigh(w.balances[i].state, w.now, 0, 0)
		after := c.Meter.Refund(before, w.now, c.Cost)
		w.ledger.tally.see("refund of what was charged", after != before)
		if after != before {
			w.write(i, stateValue{state: after})
		}
	}
	w.report(nil)
}

// A settlementStep is a settlement while the ledger processes it.
type settlementStep struct {
	*storage.Settlement
	now      algorithm.Instant
	ledger   ledger
	balances []stateValue // of each charge, as found
	out      *storage.SettleOutcome
}

func (w *settlementStep) account(m *algorithm.Meter) stateKey {
	return stateKey{w.Subject, m.Fingerprint}
}

func (w *settlementStep) write(i int, after stateValue) {
	w.balances[i] = after
	w.ledger.balances[w.account(w.Charges[i].Meter)] = after
}

func (w *settlementStep) holds(i int) bool {
	return w.Charges[i].Meter.HoldsLease(w.balances[i].entries, w.now, w.Nonce)
}

func (w *settlementStep) renewLease(i int) {
	w.write(i, stateValue{entries: w.Charges[i].Meter.TakeLease(w.balances[i].entries, w.now, w.Nonce)})
}

func (w *settlementStep) dropLease(i int) (held bool) {
	entries, held := w.Charges[i].Meter.DropLease(w.balances[i].entries, w.now, w.Nonce)
	w.write(i, stateValue{entries: entries})
	return held
}

// leases settles permits that have no reservation.
func (w *settlementStep) leases() error {
	if !w.OnlyLeases() {
		return storage.ErrNoReservation
	}
	anyHeld := false
	for i, c := range w.Charges {
		switch {
		case w.Verb != storage.Renew:
			anyHeld = w.dropLease(i) || anyHeld
		case w.holds(i):
			w.renewLease(i)
			until := w.now + algorithm.Instant(c.Meter.Window)
			if !anyHeld || until < w.out.Until {
				w.out.Until = until
			}
			anyHeld = true
		}
	}
	if w.Verb == storage.Renew && !anyHeld {
		return storage.ErrNoReservation
	}
	w.out.Again = !anyHeld
	w.report(nil)
	return nil
}

// renew extends an open reservation and its permits, if it still has all of them.
func (w *settlementStep) renew(r storage.Reservation) error {
	var leases []int
	for i, c := range w.Charges {
		if c.Meter.Kind == algorithm.KindLeases && r.Receipt(c.Meter).Cost > 0 {
			leases = append(leases, i)
			if !w.holds(i) {
				w.ledger.tally.see("renewal of a lost lease", true)
				return storage.ErrNoReservation
			}
		}
	}
	for _, i := range leases {
		w.renewLease(i)
	}
	w.ledger.tally.see("reserved lease renewed", len(leases) > 0)
	r.Until = w.now.Add(w.TTL)
	w.keep(r)
	w.out.Until = r.Until
	w.report(nil)
	return nil
}

func (w *settlementStep) keep(r storage.Reservation) {
	w.ledger.reservations[reservationKey{w.Subject, w.Nonce}] = r
}

// close replaces the estimates with the actual costs, all or none.
func (w *settlementStep) close(r storage.Reservation) {
	refused := map[int]int64{} // how much more was asked for
	after := make([]stateValue, len(w.Charges))
	closed := storage.Reservation{Nonce: r.Nonce, Until: storage.ClosedUntil(r.Until, w.now), Closed: true}
	for i, c := range w.Charges {
		if c.Meter.Kind == algorithm.KindLeases {
			continue
		}
		receipt, cost := r.Receipt(c.Meter), w.Cost(i)
		w.ledger.tally.see("give-back", cost < receipt.Cost)
		w.ledger.tally.see("charge that was not reserved", receipt.Cost == 0 && cost > 0)
		var ok bool
		if after[i], ok = w.resettled(i, receipt); !ok {
			refused[i] = cost - receipt.Cost
		}
		if cost > 0 {
			closed.Receipts = append(closed.Receipts, algorithm.Receipt{Fingerprint: c.Meter.Fingerprint, Cost: cost})
		}
	}
	if len(refused) > 0 {
		w.out.Allowed = false
		w.report(refused)
		return
	}
	for i, c := range w.Charges {
		if c.Meter.Kind == algorithm.KindLeases {
			w.dropLease(i)
		} else {
			w.write(i, after[i])
		}
	}
	w.keep(closed)
	w.strike()
	w.report(nil)
}

// strike counts the strike of a settlement that has one.
func (w *settlementStep) strike() {
	if w.Strike == nil {
		return
	}
	a := stateKey{w.Subject, algorithm.PenaltyFingerprint}
	after, until, struck := w.Strike.StrikeUnlessBanned(w.ledger.balances[a].penalty, w.now)
	w.ledger.tally.see("strike by a settlement", struck && until == 0)
	w.ledger.tally.see("ban by a settlement", struck && until != 0)
	w.ledger.tally.see("settlement of a banned subject", !struck)
	if struck {
		w.ledger.balances[a] = stateValue{penalty: after}
	}
	w.out.BannedUntil = until
}

func (w *settlementStep) resettled(i int, receipt algorithm.Receipt) (_ stateValue, ok bool) {
	m, b := w.Charges[i].Meter, w.balances[i]
	if m.Kind == algorithm.KindLog {
		entries, ok := m.ResettleLog(slices.Clone(b.entries), w.now, receipt, w.Cost(i), w.Overage)
		return stateValue{entries: entries}, ok
	}
	state, ok := m.Resettle(b.state, w.now, receipt, w.Cost(i), w.Overage)
	return stateValue{state: state}, ok
}

// report fills in the current numbers, as a peek would, except for what was refused.
func (w *settlementStep) report(refused map[int]int64) {
	w.out.Decisions = nil
	for i, c := range w.Charges {
		m, b := c.Meter, w.balances[i]
		if m.Kind.Fixed() {
			b.state, _, _ = m.Weigh(b.state, w.now, 0, 0)
		}
		more, no := refused[i]
		w.out.Decisions = append(w.out.Decisions, m.ReportSettled(b.summary(m, w.now, more, !no), w.now, more, !no))
	}
}
