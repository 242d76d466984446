package api

import (
	"errors"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/wire"
)

// fail responds with a problem.
func fail(w http.ResponseWriter, status int, detail string) {
	problem.Write(w, status, problem.New(status, detail))
}

// failWith responds with a problem that lists everything that is wrong with a request.
func failWith(w http.ResponseWriter, status int, err error) {
	problem.Write(w, status, problemOf(status, err))
}

func problemOf(status int, err error) *problem.Document {
	p := problem.New(status, err.Error())
	if mistakes, ok := errors.AsType[*wire.FieldErrors](err); ok {
		p.Errors = mistakes.List
	}
	return p
}

// statusOf returns the status for a failed settlement, release or renewal. If rules return different errors, the one
// that a retry can fix counts.
func statusOf(err error) int {
	switch {
	case errors.Is(err, penstock.ErrUnavailable):
		return http.StatusServiceUnavailable
	case errors.Is(err, penstock.ErrClosed):
		return http.StatusConflict
	case errors.Is(err, penstock.ErrNoReservation):
		return http.StatusNotFound
	case errors.Is(err, penstock.ErrInvalid):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}
