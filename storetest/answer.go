package storetest

import (
	"cmp"
	"errors"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// An answer is a store's reply to a step. Which fields are set depends on the step.
type answer struct {
	outcome storage.Outcome
	settled storage.SettleOutcome
	until   algorithm.Instant // of a ban
	refusal error             // one of refusals: the store answered with this error
}

// refusals are the errors on which stores must agree, the narrower ones first.
var refusals = []error{storage.ErrNoReservation, storage.ErrClosed, algorithm.ErrInvalid}

func refusalOf(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return r
		}
	}
	return nil
}

func (a *answer) same(b *answer) bool {
	return sameOutcome(&a.outcome, &b.outcome) && sameSettled(&a.settled, &b.settled) && a.until == b.until && a.refusal == b.refusal
}

func sameOutcome(a, b *storage.Outcome) bool {
	return a.Now == b.Now && a.Allowed == b.Allowed && slices.Equal(a.Groups, b.Groups) && slices.Equal(a.Decisions, b.Decisions)
}

func sameSettled(a, b *storage.SettleOutcome) bool {
	return a.Now == b.Now && a.Allowed == b.Allowed && a.Again == b.Again && a.Until == b.Until && a.BannedUntil == b.BannedUntil &&
		slices.Equal(a.Decisions, b.Decisions)
}

// difference describes where two answers differ, or is empty.
func difference(want, got *answer) string {
	if want.same(got) {
		return ""
	}
	type readable struct {
		Outcome storage.Outcome
		Settled storage.SettleOutcome
		Until   algorithm.Instant
		Refusal string
	}
	read := func(a *answer) readable {
		r := readable{a.outcome, a.settled, a.until, ""}
		if a.refusal != nil {
			r.Refusal = a.refusal.Error()
		}
		return r
	}
	return gocmp.Diff(read(want), read(got))
}

// canonical brings reservations into a form on which stores must agree: the credible ones, in order, and
// for closed ones only their final costs.
func canonical(rs []storage.Reservation, now algorithm.Instant) []storage.Reservation {
	var all []storage.Reservation
	for _, r := range rs {
		if !r.Live(now) {
			continue
		}
		var receipts []algorithm.Receipt
		for _, receipt := range r.Receipts {
			if r.Closed {
				receipt.At = 0
			}
			if receipt.Cost > 0 {
				receipts = append(receipts, receipt)
			}
		}
		slices.SortFunc(receipts, func(a, b algorithm.Receipt) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
		r.Receipts = receipts
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b storage.Reservation) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return all
}
