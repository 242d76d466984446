package storetest

import (
	"cmp"
	"errors"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
)

// An answer is what a store says to a step. Which of the fields say something depends on the step.
type answer struct {
	outcome penstock.Outcome
	settled penstock.Settled
	until   penstock.Instant // of a ban
	refusal error            // one of refusals: the store could answer, and this is what it said
}

// refusals are the errors in which stores must agree, the narrower ones first.
var refusals = []error{penstock.ErrNoReservation, penstock.ErrClosed, penstock.ErrInvalid}

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

func sameOutcome(a, b *penstock.Outcome) bool {
	return a.Now == b.Now && a.Allowed == b.Allowed && slices.Equal(a.Groups, b.Groups) && slices.Equal(a.Decisions, b.Decisions)
}

func sameSettled(a, b *penstock.Settled) bool {
	return a.Now == b.Now && a.Allowed == b.Allowed && a.Again == b.Again && a.Until == b.Until && slices.Equal(a.Decisions, b.Decisions)
}

// difference says where two answers differ, or is empty.
func difference(want, got *answer) string {
	if want.same(got) {
		return ""
	}
	type readable struct {
		Outcome penstock.Outcome
		Settled penstock.Settled
		Until   penstock.Instant
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

// canonical brings reservations into a form in which stores must agree: those that can be
// believed, in order, and of closed ones only what they were closed with.
func canonical(rs []penstock.Reservation, now penstock.Instant) []penstock.Reservation {
	var all []penstock.Reservation
	for _, r := range rs {
		if !r.Live(now) {
			continue
		}
		var receipts []penstock.Receipt
		for _, receipt := range r.Receipts {
			if r.Closed {
				receipt.At = 0
			}
			if receipt.Cost > 0 {
				receipts = append(receipts, receipt)
			}
		}
		slices.SortFunc(receipts, func(a, b penstock.Receipt) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
		r.Receipts = receipts
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b penstock.Reservation) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return all
}
