package storage

import (
	"errors"

	"github.com/penstock-io/penstock/algorithm"
)

var (
	// ErrUnavailable is wrapped by every error of a store that could not answer. It is then unknown whether
	// the request was charged, so it must not be sent again.
	ErrUnavailable = errors.New("store unavailable")

	// ErrNotTaken is wrapped by errors of Take that prove that nothing was charged: the ticket was not sent.
	// It wraps ErrUnavailable.
	ErrNotTaken error = notTakenError{}

	// ErrFull is what a bounded store returns if it has no room to remember a permit, a reservation or a ban.
	// It wraps ErrNotTaken. Unlike for other unavailable stores, a rule then denies unless its failure policy
	// is to allow: a full store still limits.
	ErrFull error = full{}

	// ErrNoReservation is returned for a settlement without a reservation: it was never made, has expired, or
	// belongs to another subject. It wraps ErrInvalid.
	ErrNoReservation error = noReservation{}

	// ErrClosed is returned for a settlement whose reservation was already closed in another way. It wraps
	// ErrInvalid.
	ErrClosed error = closedError{}

	// ErrCorrupt is returned by a store that finds data under one of its keys that it did not write. It
	// overwrites nothing. It wraps ErrUnavailable.
	ErrCorrupt error = corrupt{}
)

type notTakenError struct{}

func (notTakenError) Error() string { return "store unavailable, nothing charged" }
func (notTakenError) Unwrap() error { return ErrUnavailable }

type full struct{}

func (full) Error() string { return "store full: no room for another key" }
func (full) Unwrap() error { return ErrNotTaken }

type noReservation struct{}

func (noReservation) Error() string {
	return "no such reservation: unknown, expired, or of another rule or key"
}
func (noReservation) Unwrap() error { return algorithm.ErrInvalid }

type closedError struct{}

func (closedError) Error() string {
	return "reservation was already settled or released with another cost"
}
func (closedError) Unwrap() error { return algorithm.ErrInvalid }

type corrupt struct{}

func (corrupt) Error() string { return "the state is damaged or was not written by Penstock" }
func (corrupt) Unwrap() error { return ErrUnavailable }
