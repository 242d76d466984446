package storetest

import (
	"slices"

	"github.com/penstock-io/penstock"
)

// A weighing is one charge on its way through the ledger. The three kinds of state (fixed size,
// log, leases) differ only here.
type weighing struct {
	penstock.Charge
	account account
	now     penstock.Instant
	ticket  *penstock.Ticket

	record   record             // up to date for fixed-size states, as it was found for lists
	log      penstock.LogWeight // of a log only
	frozen   bool               // the state is dated after now, and believed
	repaired bool
	found    penstock.Found
}

func (w *weighing) weigh(r record) {
	w.record = record{r.state, slices.Clone(r.entries)}
	switch w.Meter.Kind {
	case penstock.KindLog:
		w.log = w.Meter.WeighLog(w.record.entries, w.now, w.Cost)
		w.found.Passes, w.repaired = w.log.Passes, w.log.Repaired
		w.frozen = w.log.At > w.now
	case penstock.KindLeases:
		lw := w.Meter.WeighLeases(w.record.entries, w.now, w.Cost, w.ticket.Nonce)
		w.found.Passes, w.repaired = lw.Passes, lw.Repaired
	default:
		w.record.state, w.found.Passes, w.repaired = w.Meter.Weigh(r.state, w.now, w.Cost, w.ticket.MaxDelay)
		w.frozen = w.record.state.At > w.now
	}
}

// conclude returns what is kept after the verdict on everything weighed together, and whether it
// is to be written. A peek and a cost that can never pass touch nothing. A denied call writes
// only where it counts as a call, or to keep what a wrong clock wrote from blocking any longer.
func (w *weighing) conclude(pass bool) (after record, write bool) {
	switch {
	case w.Cost == 0 || !w.Meter.CanEver(w.Cost):
		return w.record, false
	case pass:
		return w.charged(), true
	case w.Meter.CountDenied:
		return w.denialCounted(), true
	case w.repaired:
		return w.mended(), true
	}
	return w.record, false
}

func (w *weighing) charged() record {
	switch r := w.record; w.Meter.Kind {
	case penstock.KindLog:
		return record{entries: w.Meter.RecordLog(r.entries, w.log, w.Cost)}
	case penstock.KindLeases:
		return record{entries: w.Meter.TakeLease(r.entries, w.now, w.ticket.Nonce)}
	default:
		return record{state: w.Meter.Charge(r.state, w.Cost)}
	}
}

func (w *weighing) denialCounted() record {
	if w.Meter.Kind == penstock.KindLog {
		return record{entries: w.Meter.RecordLog(w.record.entries, w.log, w.Cost)}
	}
	return record{state: w.Meter.ChargeDenied(w.record.state, w.Cost)}
}

func (w *weighing) mended() record {
	switch r := w.record; w.Meter.Kind {
	case penstock.KindLog:
		return record{entries: w.Meter.RecordLog(r.entries, w.log, 0)}
	case penstock.KindLeases:
		return record{entries: w.Meter.MendLeases(r.entries, w.now)}
	default:
		return r
	}
}

// report sums up the state as the call left it.
func (w *weighing) report(after record) {
	switch w.Meter.Kind {
	case penstock.KindLog:
		w.found.State = w.Meter.LogState(after.entries, w.now, w.Cost, w.found.Passes)
	case penstock.KindLeases:
		w.found.State = w.Meter.LeaseState(after.entries, w.now, w.Cost, w.found.Passes)
	default:
		w.found.State = after.state
	}
}
