package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Settle closes or renews what a group took under a nonce. It is one step under the lock of the subject's
// shard; if it returns an error, nothing has changed.
func (s *Store) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	if err := what.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return ended(what.Verb.String(), err)
	}
	w := works.Get().(*workspace)
	w.store = s
	w.layOut(what)
	w.lock()
	err := w.settle(what, out)
	w.unlock()
	w.forget()
	works.Put(w)
	if err != nil {
		return fmt.Errorf("%v %d in memory: %w", what.Verb, what.Nonce, err)
	}
	return nil
}

// layOut presents the settlement as a ticket with a reservation, so that the same code finds its states and
// makes room.
func (w *workspace) layOut(what *storage.Settlement) {
	w.ownGroup[0] = storage.Group{Subject: what.Subject, Charges: what.Charges, Reserve: storage.MaxReserve, Penalty: what.Strike}
	w.own = storage.Ticket{Now: what.Now, Nonce: what.Nonce, Groups: w.ownGroup[:]}
	w.ticket = &w.own
	w.list()
	for i := range w.items {
		w.items[i].Cost = what.Cost(i)
	}
}

func (w *workspace) settle(what *storage.Settlement, out *storage.SettleOutcome) error {
	w.now = w.store.instant(w.ticket)
	clear(w.found)
	*out = storage.SettleOutcome{Now: w.now, Allowed: true, Decisions: out.Decisions}
	if what.Verb == storage.Refund {
		w.refund()
		w.report(out)
		return nil
	}
	r := w.reserved()
	var err error
	switch {
	case !r.Live(w.now):
		err = w.settleLeases(what, out)
	case r.Closed && !what.Repeats(&r):
		err = storage.ErrClosed
	case r.Closed:
		out.Again = true
	case what.Verb == storage.Renew:
		err = w.renew(what, &r, out)
	default:
		err = w.close(what, &r, out)
	}
	if err != nil {
		return err
	}
	w.report(out)
	return nil
}

// refund returns cost to the counters that exist. A key that shares a counter gets nothing back: that would need a
// counter of its own, and no room was made for one.
func (w *workspace) refund() {
	for i := range w.items {
		it := &w.items[i]
		s := it.slot()
		if s == nil {
			continue
		}
		before, _, _ := it.Meter.Weigh(it.sh.load(s, it.Meter.Kind), w.now, 0, 0)
		if after := it.Meter.Refund(before, w.now, it.Cost); after != before {
			it.save(after)
		}
	}
}

// reserved returns the settlement's reservation, or the zero value if there is none.
func (w *workspace) reserved() storage.Reservation {
	p := &w.guards[0].reservation
	s := p.findSlot()
	if s == nil || !p.sh.isReservation(s, &w.ownGroup[0].Subject) {
		return storage.Reservation{}
	}
	r := p.sh.reservation(s, w.receipts[:0])
	w.receipts = r.Receipts
	return r
}

// settleLeases settles permits that have no reservation.
func (w *workspace) settleLeases(what *storage.Settlement, out *storage.SettleOutcome) error {
	if !what.OnlyLeases() {
		return storage.ErrNoReservation
	}
	held := false
	for i := range w.items {
		it := &w.items[i]
		if !w.holds(it) {
			continue
		}
		if what.Verb == storage.Renew {
			w.renewLease(it)
			if until := w.now + algorithm.Instant(it.Meter.Window); !held || until < out.Until {
				out.Until = until
			}
		} else {
			w.dropLease(it)
		}
		held = true
	}
	if !held && what.Verb == storage.Renew {
		return storage.ErrNoReservation
	}
	out.Again = !held
	return nil
}

func (w *workspace) holds(it *item) bool {
	return it.Meter.HoldsLease(it.sh.list(it.slot()), w.now, w.ticket.Nonce)
}

// renewLease takes the permit again, which needs no additional room.
func (w *workspace) renewLease(it *item) {
	s := it.slot()
	it.setList(s, it.Meter.TakeLease(it.sh.list(s), w.now, w.ticket.Nonce))
}

// dropLease releases the permit, if there is one.
func (w *workspace) dropLease(it *item) {
	s := it.slot()
	if s == nil {
		return
	}
	leases, _ := it.Meter.DropLease(it.sh.list(s), w.now, w.ticket.Nonce)
	it.setOrDrop(s, leases)
}

// setOrDrop is setList for a list that may be empty.
func (it *item) setOrDrop(s *slot, list []algorithm.Entry) {
	if len(list) == 0 {
		it.sh.drop(it.sh.index(s))
		return
	}
	it.setList(s, list)
}

// renew extends an open reservation and its permits, if it still has all of them.
func (w *workspace) renew(what *storage.Settlement, r *storage.Reservation, out *storage.SettleOutcome) error {
	isReserved := func(it *item) bool {
		return it.Meter.Kind == algorithm.KindLeases && r.Receipt(it.Meter).Cost > 0
	}
	for i := range w.items {
		if it := &w.items[i]; isReserved(it) && !w.holds(it) {
			return storage.ErrNoReservation
		}
	}
	for i := range w.items {
		if it := &w.items[i]; isReserved(it) {
			w.renewLease(it)
		}
	}
	r.Until = w.now.Add(what.TTL)
	out.Until = r.Until
	w.guards[0].reservation.setReservation(&what.Subject, r, false, w.now, w.isGiven())
	return nil
}

// close replaces the estimates with the actual costs, all or none.
func (w *workspace) close(what *storage.Settlement, r *storage.Reservation, out *storage.SettleOutcome) error {
	for i := range w.items {
		if it := &w.items[i]; it.Meter.Kind != algorithm.KindLeases {
			more, ok := w.resettles(it, r.Receipt(it.Meter), what.Overage)
			it.wanted = more > 0 || it.Meter.Kind.Fixed() // it is dated, even if it is new
			if !ok {
				w.found[i].Amount = more
				out.Allowed = false
			}
		}
	}
	if !out.Allowed {
		return nil
	}
	strike, until := w.strikeToClose(what.Strike)
	if err := w.makeRoomToClose(); err != nil {
		return err
	}
	if w.guards[0].penalty.wanted {
		w.guards[0].penalty.setPenalty(strike, what.Strike.Forgive, until != 0, w.isGiven())
	}
	out.BannedUntil = until
	for i := range w.items {
		if it := &w.items[i]; it.Meter.Kind == algorithm.KindLeases {
			w.dropLease(it)
		} else {
			w.resettle(it, r.Receipt(it.Meter), what.Overage)
		}
	}
	w.keepClosed(what, r)
	return nil
}

// strikeToClose returns the penalty's state after the strike of a settlement, and the end of the ban, if there
// is one. It marks the state if it must be written.
func (w *workspace) strikeToClose(p *algorithm.Penalty) (after algorithm.PenaltyState, until algorithm.Instant) {
	if p == nil {
		return after, 0
	}
	at := &w.guards[0].penalty
	after, until, at.wanted = p.StrikeUnlessBanned(at.findSlot().penalty(), w.now)
	return after, until
}

// resettles returns how much to charge beyond the receipt, and whether that is allowed.
func (w *workspace) resettles(it *item, receipt algorithm.Receipt, o algorithm.Overage) (more int64, ok bool) {
	m, s := it.Meter, it.findSlot()
	more = it.Cost - receipt.Cost
	if m.Kind == algorithm.KindLog { // ResettleLog would change it
		return more, more <= 0 || o != algorithm.OverageDeny || m.WeighLog(it.list(s), w.now, more).Passes
	}
	_, ok = m.Resettle(it.sh.load(s, m.Kind), w.now, receipt, it.Cost, o)
	return more, ok
}

// makeRoomToClose is makeRoom for a settlement: it makes room for the additional charges and for the costs
// that a closed reservation remembers.
func (w *workspace) makeRoomToClose() error {
	r := w.room()
	sh := &w.store.shards[w.shards[0]]
	n, costs := uint32(0), 0
	if p := &w.guards[0].penalty; p.wanted && p.missing {
		n++
	}
	for i := range w.items {
		it := &w.items[i]
		if it.wanted && it.missing {
			n++
		}
		if it.closesWith() {
			costs++
		}
	}
	if n > 0 {
		if sh.makeRoom(n, r) != nil {
			return sh.refuse()
		}
	}
	for i := range w.items {
		if it := &w.items[i]; it.wanted && it.isList() {
			if err := it.makeBlock(1, r); err != nil {
				return err
			}
		}
	}
	return w.guards[0].reservation.holdBlock(reservationEntries(costs), r, forState)
}

// closesWith reports whether a closed reservation remembers the cost of the charge.
func (it *item) closesWith() bool { return it.Meter.Kind != algorithm.KindLeases && it.Cost > 0 }

// resettle charges or returns the difference. If a log is gone, there is nothing to return.
func (w *workspace) resettle(it *item, receipt algorithm.Receipt, o algorithm.Overage) {
	m, s := it.Meter, it.slot()
	if s == nil && !it.wanted {
		return
	}
	if m.Kind == algorithm.KindLog {
		if s == nil {
			s = it.add()
		}
		log, _ := m.ResettleLog(it.sh.list(s), w.now, receipt, it.Cost, o)
		it.setOrDrop(s, log)
		return
	}
	st, _ := m.Resettle(it.sh.load(it.findSlot(), m.Kind), w.now, receipt, it.Cost, o)
	it.save(st)
}

// keepClosed keeps the closed reservation for a while, with its final costs.
func (w *workspace) keepClosed(what *storage.Settlement, r *storage.Reservation) {
	closed := storage.Reservation{Nonce: r.Nonce, Until: storage.ClosedUntil(r.Until, w.now), Closed: true, Receipts: r.Receipts[:0]}
	for i := range w.items {
		if it := &w.items[i]; it.closesWith() {
			closed.Receipts = append(closed.Receipts, algorithm.Receipt{Fingerprint: it.Meter.Fingerprint, Cost: it.Cost})
		}
	}
	w.receipts = closed.Receipts
	w.guards[0].reservation.setReservation(&what.Subject, &closed, false, w.now, w.isGiven())
}

// report fills in the current numbers, as a peek would, except for what was refused.
func (w *workspace) report(out *storage.SettleOutcome) {
	out.Decisions = slices.Grow(out.Decisions[:0], len(w.items))[:len(w.items)]
	for i := range w.items {
		it, more := &w.items[i], w.found[i].Amount
		m, s := it.Meter, it.findSlot()
		var st algorithm.State
		if m.Kind.Fixed() {
			st, _, _ = m.Weigh(it.sh.load(s, m.Kind), w.now, 0, 0)
		} else {
			st = it.sum(it.list(s), w.now, more, more == 0)
		}
		out.Decisions[i] = m.ReportSettled(st, w.now, more, more == 0)
	}
	w.dateAll(out.Decisions)
}
