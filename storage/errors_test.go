package storage

import (
	"errors"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
)

func TestErrorsSayWhoIsToBlame(t *testing.T) {
	for _, err := range []error{ErrFull, ErrCorrupt} {
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, algorithm.ErrInvalid) || err.Error() == "" {
			t.Errorf("%q: unavailable %v, invalid %v", err, errors.Is(err, ErrUnavailable), errors.Is(err, algorithm.ErrInvalid))
		}
	}
	for _, err := range []error{ErrNoReservation, ErrClosed} {
		if !errors.Is(err, algorithm.ErrInvalid) || errors.Is(err, ErrUnavailable) || err.Error() == "" {
			t.Errorf("%q: invalid %v, unavailable %v", err, errors.Is(err, algorithm.ErrInvalid), errors.Is(err, ErrUnavailable))
		}
	}
	if errors.Is(ErrFull, ErrCorrupt) || errors.Is(ErrClosed, ErrNoReservation) {
		t.Error("a full store is not a corrupt one, nor is a closed reservation none")
	}
}
