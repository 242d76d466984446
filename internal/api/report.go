package api

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
)

// report corrects what a request was charged, according to its response. The rules take effect that decide by the
// response; permits are released.
func (a *api) report(w http.ResponseWriter, r *http.Request) {
	x := a.begin()
	defer a.end(x)
	if !x.read(w, r, a.Limits.Body) {
		return
	}
	report, err := wire.ParseReport(x.body.Bytes())
	if err != nil {
		failWith(w, http.StatusBadRequest, err)
		return
	}
	c := penstock.Conclusion{Reservation: report.Reservation, Verb: penstock.Settle, Response: &report.Response}
	if report.RequestID != "" {
		if c.Reservation = a.requests.reservation(report.RequestID); c.Reservation == "" {
			fail(w, http.StatusNotFound, fmt.Sprintf("no reservation of a request with the id %.40q is known to this node: report to the node that decided, or name the reservation", report.RequestID))
			return
		}
	}
	a.answerConclusion(w, r, x, &c)
}

// requestID returns the id by which a proxy will report the request that it asks about; "" if it will not. As with
// deny_status, the first of several values counts.
func requestID(u *url.URL) (string, error) {
	id := u.Query().Get("request_id")
	if len(id) > wire.MaxRequestID {
		return "", fmt.Errorf("request_id has %d bytes; at most %d", len(id), wire.MaxRequestID)
	}
	return id, nil
}

// requests remembers the reservations of requests that will be reported by their ids: as many as maxRequests, and for
// as long as they are open. When there are more, the oldest are forgotten.
type requests struct {
	mu    sync.Mutex
	byID  map[string]openRequest
	order []string // as a ring of ids
	next  int
}

type openRequest struct {
	reservation string
	until       time.Time
	place       int // in order
}

// maxRequests takes about 20 MB with ids of 32 bytes.
const maxRequests = 1 << 16

func (r *requests) remember(id string, v *penstock.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID, r.order = map[string]openRequest{}, make([]string, maxRequests)
	}
	if old := r.order[r.next]; old != "" && r.byID[old].place == r.next {
		delete(r.byID, old)
	}
	r.byID[id] = openRequest{v.Reservation, time.Now().Add(v.ReservedFor), r.next}
	r.order[r.next] = id
	r.next = (r.next + 1) % maxRequests
}

// reservation returns the reservation of a request, or "" if it is not known. It stays known: a report may be sent
// again.
func (r *requests) reservation(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	open := r.byID[id]
	if !time.Now().Before(open.until) {
		return ""
	}
	return open.reservation
}
