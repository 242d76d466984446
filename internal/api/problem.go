package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
)

// fail answers with a problem.
func fail(w http.ResponseWriter, status int, detail string) {
	write(w, &wire.Problem{Title: http.StatusText(status), Status: status, Detail: detail}, status)
}

// failWith answers that what was asked is wrong, with all that is.
func failWith(w http.ResponseWriter, status int, err error) {
	write(w, problemOf(status, err), status)
}

func problemOf(status int, err error) *wire.Problem {
	p := &wire.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}
	if mistakes, ok := errors.AsType[*wire.Mistakes](err); ok {
		p.Errors = mistakes.List
	}
	return p
}

func write(w http.ResponseWriter, p *wire.Problem, status int) {
	body, _ := json.Marshal(p) // strings and numbers: it cannot fail
	header(w, wire.ProblemType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func header(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
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
