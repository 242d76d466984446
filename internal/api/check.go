package api

import (
	"errors"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
)

func (a *api) check(w http.ResponseWriter, r *http.Request) { a.decide(w, r, wire.ParseCheck) }

func (a *api) reserve(w http.ResponseWriter, r *http.Request) { a.decide(w, r, wire.ParseReserve) }

func (a *api) decide(w http.ResponseWriter, r *http.Request, parse func([]byte, *penstock.Call) error) {
	x := a.begin()
	defer a.end(x)
	if !x.read(w, r, a.Limits.Body) {
		return
	}
	err := parse(x.body.Bytes(), &x.call)
	if err == nil {
		err = requestErrors(a.Decider.Decide(r.Context(), &x.call, &x.verdict))
	}
	if err != nil {
		failWith(w, http.StatusBadRequest, err)
		return
	}
	x.answer = append(wire.AppendVerdict(x.answer[:0], &x.verdict), '\n')
	x.reply(w)
}

// requestErrors returns errors that are about the request, and drops all others: with those, the verdict is still
// valid.
func requestErrors(err error) error {
	if errors.Is(err, penstock.ErrInvalid) {
		return err
	}
	return nil
}

func (a *api) batch(w http.ResponseWriter, r *http.Request) {
	x := a.begin()
	defer a.end(x)
	if !x.read(w, r, a.Limits.BatchBody) {
		return
	}
	calls, err := wire.ParseBatch(x.body.Bytes())
	if err != nil {
		failWith(w, http.StatusBadRequest, err)
		return
	}
	verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
	if a.Batch != nil {
		a.Batch.DecideEach(r.Context(), calls, verdicts, errs)
	} else {
		for i := range calls {
			errs[i] = a.Decider.Decide(r.Context(), &calls[i], &verdicts[i])
		}
	}
	for i := range errs {
		errs[i] = requestErrors(errs[i])
	}
	x.answer = append(wire.AppendResults(x.answer[:0], verdicts, errs), '\n')
	x.reply(w)
}
