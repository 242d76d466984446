package storage

import (
	"errors"

	"github.com/penstock-io/penstock/algorithm"
)

var (
	// ErrUnavailable is wrapped by every error with which a store says that it could not
	// answer. Whether the call was charged is then unknown, so it must not be sent again.
	ErrUnavailable = errors.New("store unavailable")

	// ErrNotTaken is wrapped by errors of Take that prove that nothing was charged: the ticket was
	// not sent. It wraps ErrUnavailable.
	ErrNotTaken error = notTaken{}

	// ErrFull is what a bounded store returns for a permit, a reservation or a ban that it has no
	// room to remember. It wraps ErrNotTaken, but a rule denies then unless its failure policy is to
	// allow: a full store still limits.
	ErrFull error = full{}

	// ErrNoReservation is what a settlement gets for which there is none: never made, over, or
	// of another subject. It wraps ErrInvalid.
	ErrNoReservation error = noReservation{}

	// ErrClosed is what a settlement gets whose reservation was closed in another way before.
	// It wraps ErrInvalid.
	ErrClosed error = closed{}

	// ErrCorrupt is what a store says when it finds something under a key of its own that it
	// did not write. Nothing is overwritten. It wraps ErrUnavailable.
	ErrCorrupt error = corrupt{}
)

type notTaken struct{}

func (notTaken) Error() string { return "store unavailable, nothing charged" }
func (notTaken) Unwrap() error { return ErrUnavailable }

type full struct{}

func (full) Error() string { return "store full: no room for another key" }
func (full) Unwrap() error { return ErrNotTaken }

type noReservation struct{}

func (noReservation) Error() string {
	return "no such reservation: never made, over, or not of this rule and key"
}
func (noReservation) Unwrap() error { return algorithm.ErrInvalid }

type closed struct{}

func (closed) Error() string { return "reservation was settled or released before, with another cost" }
func (closed) Unwrap() error { return algorithm.ErrInvalid }

type corrupt struct{}

func (corrupt) Error() string { return "state is not Penstock's or is damaged" }
func (corrupt) Unwrap() error { return ErrUnavailable }
