package api

import (
	"errors"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/wire"
)

// fail answers with a problem.
func fail(w http.ResponseWriter, status int, detail string) {
	problem.Write(w, status, problem.New(status, detail))
}

// failWith answers that what was asked is wrong, with all that is.
func failWith(w http.ResponseWriter, status int, err error) {
	problem.Write(w, status, problemOf(status, err))
}

func problemOf(status int, err error) *problem.Document {
	p := problem.New(status, err.Error())
	if mistakes, ok := errors.AsType[*wire.Mistakes](err); ok {
		p.Errors = mistakes.List
	}
	return p
}

// statusOf a conclusion that failed. Of several rules' errors the one counts that another try can
// mend.
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
