package api_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/storage"
)

// reserveTokens reserves 500 and returns the path of the reservation.
func reserveTokens(t *testing.T, h http.Handler) string {
	t.Helper()
	w := ask(t, h, "POST", "/v1/reserve", `{"attributes":{"team":"a","path":"/v1/complete"},"cost":500}`)
	var v penstock.Verdict
	if err := wire.ParseVerdict(w.Body.Bytes(), 0, &v); err != nil || v.Reservation == "" {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return "/v1/reservations/" + v.Reservation
}

func expect(t *testing.T, h http.Handler, method, path, body string, status int, want string) {
	t.Helper()
	if w := ask(t, h, method, path, body); w.Code != status || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s %.40s %s: %d %s\nwant %d %s", method, path, body, w.Code, w.Body, status, want)
	}
}

func TestReservationsAreConcludedOnce(t *testing.T) {
	h := newHandler(t, setup{now: at(someday)})
	settled := reserveTokens(t, h)
	expect(t, h, "POST", settled+"/renew", `{}`, 200, `"remaining":500`)
	expect(t, h, "POST", settled+"/settle", `{"cost":37}`, 200, `"remaining":963`)
	expect(t, h, "POST", settled+"/settle", `{"cost":37}`, 200, `"remaining":963`)
	expect(t, h, "POST", settled+"/settle", `{"cost":38}`, 409, `"title":"Conflict"`)
	expect(t, h, "DELETE", settled, "", 409, `"title":"Conflict"`)

	released := reserveTokens(t, h)
	expect(t, h, "DELETE", released, "", 200, `"remaining":963`)
	expect(t, h, "POST", released+"/renew", `{"ttl_ms":1000}`, 409, `"title":"Conflict"`)

	expect(t, h, "POST", settled+"/settle", `{}`, 400, `"at":"cost","message":"is missing"`)
	expect(t, h, "POST", settled+"/renew", `{"ttl_ms":86400001}`, 400, `"at":"ttl_ms"`)
	expect(t, h, "POST", "/v1/reservations/made-up/settle", `{"cost":1}`, 404, `"title":"Not Found"`)
	expect(t, h, "DELETE", "/v1/reservations/"+strings.Repeat("A", 10_000), "", 404, "too long")
}

// Releasing a permit makes room for another one.
func TestLeases(t *testing.T) {
	h := newHandler(t, setup{now: at(someday)})
	var v penstock.Verdict
	for range 2 {
		w := ask(t, h, "POST", "/v1/check", call("/jobs", "u"))
		if err := wire.ParseVerdict(w.Body.Bytes(), 0, &v); err != nil || !v.Allowed {
			t.Fatalf("%s: %v", w.Body, err)
		}
	}
	expect(t, h, "POST", "/v1/check", call("/jobs", "u"), 200, `"allowed":false`)
	expect(t, h, "DELETE", "/v1/reservations/"+v.Reservation, "", 200, `"allowed":true`)
	expect(t, h, "POST", "/v1/check", call("/jobs", "u"), 200, `"allowed":true`)
}

// half is a store that takes, and then fails to settle.
type half struct {
	penstock.Store
	unavailableStore
}

func (h half) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	return h.Store.Take(ctx, t, out)
}

func TestConclusionWithoutStore(t *testing.T) {
	var log bytes.Buffer
	h := newHandler(t, setup{store: half{Store: newMemory(t)}, log: &log})
	w := ask(t, h, "DELETE", reserveTokens(t, h), "")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || strings.Contains(w.Body.String(), "rule") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if !strings.Contains(log.String(), "tokens-per-team") {
		t.Errorf("the log does not tell: %s", log.String())
	}
}
