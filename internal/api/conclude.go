package api

import (
	"log/slog"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
)

func (a *api) settle(w http.ResponseWriter, r *http.Request) {
	a.conclude(w, r, penstock.Settle, func(body []byte, c *penstock.Conclusion) (err error) {
		c.Cost, err = wire.ParseSettle(body)
		return err
	})
}

func (a *api) renew(w http.ResponseWriter, r *http.Request) {
	a.conclude(w, r, penstock.Renew, func(body []byte, c *penstock.Conclusion) (err error) {
		c.TTL, err = wire.ParseRenew(body)
		return err
	})
}

func (a *api) release(w http.ResponseWriter, r *http.Request) {
	a.conclude(w, r, penstock.Release, nil)
}

// conclude settles, releases or renews a reservation. parse is nil if there is no body.
func (a *api) conclude(w http.ResponseWriter, r *http.Request, verb penstock.Verb, parse func([]byte, *penstock.Conclusion) error) {
	x := a.begin()
	defer a.end(x)
	conclusion := penstock.Conclusion{Reservation: r.PathValue("id"), Verb: verb}
	if parse != nil {
		if !x.read(w, r, a.Limits.Body) {
			return
		}
		if err := parse(x.body.Bytes(), &conclusion); err != nil {
			failWith(w, http.StatusBadRequest, err)
			return
		}
	}
	a.answerConclusion(w, r, x, &conclusion)
}

// answerConclusion concludes a reservation and answers with the verdict.
func (a *api) answerConclusion(w http.ResponseWriter, r *http.Request, x *requestState, c *penstock.Conclusion) {
	if err := a.Concluder.Conclude(r.Context(), c, &x.verdict); err != nil {
		a.notConcluded(w, r, c.Verb, err)
		return
	}
	x.answer = append(wire.AppendVerdict(x.answer[:0], &x.verdict), '\n')
	x.reply(w)
}

func (a *api) notConcluded(w http.ResponseWriter, r *http.Request, verb penstock.Verb, err error) {
	status := statusOf(err)
	if status != http.StatusServiceUnavailable {
		failWith(w, status, err)
		return
	}
	// The error can name servers, so it is only logged.
	a.Log.LogAttrs(r.Context(), slog.LevelError, "reservation not concluded", slog.String("verb", verb.String()), slog.Any("error", err))
	w.Header().Set("Retry-After", "1")
	fail(w, status, "the store did not respond; you can safely repeat the request, because it takes effect once")
}
