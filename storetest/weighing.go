package storetest

import (
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A chargeDecision is one charge while the ledger decides it. The three kinds of state (fixed size, log, permits)
// differ only here.
type chargeDecision struct {
	algorithm.Charge
	account stateKey
	now     algorithm.Instant
	ticket  *storage.Ticket

	cost     int64               // the cost to weigh
	balance  stateValue          // up to date for fixed-size states, as it was found for lists
	log      algorithm.LogWeight // for a log only
	frozen   bool                // the state is dated after now, and believed
	repaired bool
	found    storage.ChargeResult
}

func (w *chargeDecision) weigh(b stateValue) {
	w.balance = stateValue{state: b.state, entries: slices.Clone(b.entries)}
	switch w.Meter.Kind {
	case algorithm.KindLog:
		w.log = w.Meter.WeighLog(w.balance.entries, w.now, w.cost)
		w.found.Passes, w.repaired = w.log.Passes, w.log.Repaired
		w.frozen = w.log.At > w.now
	case algorithm.KindLeases:
		lw := w.Meter.WeighLeases(w.balance.entries, w.now, w.cost, w.ticket.Nonce)
		w.found.Passes, w.repaired = lw.Passes, lw.Repaired
	default:
		w.balance.state, w.found.Passes, w.repaired = w.Meter.Weigh(b.state, w.now, w.cost, w.ticket.MaxDelay)
		w.frozen = w.balance.state.At > w.now
	}
}

// conclude returns the state to keep after the verdict on everything weighed together, and whether it must
// be written. A banned request writes nothing, and a duplicate writes only permits. A peek and a cost that
// can never pass touch nothing. A denied request writes only if denied requests count, or to keep what a
// wrong clock wrote from blocking any longer.
func (w *chargeDecision) conclude(pass, touchable bool) (after stateValue, write bool) {
	switch {
	case !touchable || w.cost == 0 || !w.Meter.CanEver(w.cost):
		return w.balance, false
	case pass:
		return w.charged(), true
	case w.Meter.CountDenied:
		return w.denialCounted(), true
	case w.repaired:
		return w.mended(), true
	}
	return w.balance, false
}

func (w *chargeDecision) charged() stateValue {
	switch b := w.balance; w.Meter.Kind {
	case algorithm.KindLog:
		return stateValue{entries: w.Meter.RecordLog(b.entries, w.log, w.took(w.Meter.LogAmount(w.log, w.Charge)))}
	case algorithm.KindLeases:
		return stateValue{entries: w.Meter.TakeLease(b.entries, w.now, w.ticket.Nonce)}
	default:
		return stateValue{state: w.Meter.Charge(b.state, w.took(w.Meter.Amount(b.state, w.now, w.Charge)))}
	}
}

// took notes how much is taken, if that is not just the cost.
func (w *chargeDecision) took(amount int64) int64 {
	if w.Overdraw {
		w.found.Amount = amount
	}
	return amount
}

func (w *chargeDecision) denialCounted() stateValue {
	if w.Meter.Kind == algorithm.KindLog {
		return stateValue{entries: w.Meter.RecordDenied(w.balance.entries, w.log, w.Cost)}
	}
	return stateValue{state: w.Meter.ChargeDenied(w.balance.state, w.Cost)}
}

func (w *chargeDecision) mended() stateValue {
	switch b := w.balance; w.Meter.Kind {
	case algorithm.KindLog:
		return stateValue{entries: w.Meter.RecordLog(b.entries, w.log, 0)}
	case algorithm.KindLeases:
		return stateValue{entries: w.Meter.MendLeases(b.entries, w.now)}
	default:
		return b
	}
}

// report sums up the state after the request.
func (w *chargeDecision) report(after stateValue) {
	w.found.State = after.summary(w.Meter, w.now, w.cost, w.found.Passes)
}

// summary returns the state of a balance whose fixed-size state is up to date.
func (b stateValue) summary(m *algorithm.Meter, now algorithm.Instant, cost int64, passes bool) algorithm.State {
	switch m.Kind {
	case algorithm.KindLog:
		return m.LogState(b.entries, now, cost, passes)
	case algorithm.KindLeases:
		return m.LeaseState(b.entries, now, cost, passes)
	default:
		return b.state
	}
}
