package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock/internal/wire"
)

// login asks on behalf of a proxy whose client logs in.
func login(query string) *http.Request {
	return forward(query, "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/login")
}

// A proxy reports the responses of its clients, by the reservation or by the request id.
func TestReport(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	left := 5
	for i, c := range []struct {
		report string // without what names the request
		failed int    // logins that count
	}{
		{`"status":401`, 1}, {`"status":200`, 0}, {`"status":200,"headers":{"X-Login":"ok"},"duration_ms":7,"bytes":100`, 0},
		{`"status":499`, 1}, {`"duration_ms":1`, 1}, {`"status":302`, 0},
	} {
		w := send(t, h, login(fmt.Sprintf("?request_id=r%d&request_id=client", i)))
		reservation := w.Header().Get("X-Penstock-Reservation")
		if w.Code != 200 || reservation == "" || !strings.Contains(field(w, "RateLimit"), fmt.Sprintf("r=%d", left-1)) {
			t.Fatalf("%d: %d %v", i, w.Code, w.Header())
		}
		left -= c.failed
		name := fmt.Sprintf(`"reservation":%q`, reservation)
		if i%2 == 1 {
			name = fmt.Sprintf(`"request_id":"r%d"`, i)
		}
		for range 2 {
			w := ask(t, h, "POST", "/v1/report", "{"+name+","+c.report+"}")
			if w.Code != 200 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"remaining":%d,`, left)) {
				t.Errorf("%d: %d %s, want %d left", i, w.Code, w.Body, left)
			}
		}
		other := fmt.Sprintf(`{%s,"status":%d}`, name, 401-c.failed)
		if w := ask(t, h, "POST", "/v1/report", other); w.Code != http.StatusConflict {
			t.Errorf("%d: another outcome: %d %s", i, w.Code, w.Body)
		}
	}
	if w := send(t, h, forward("?request_id=r", "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/")); w.Code != 200 || w.Header()["X-Penstock-Reservation"] != nil {
		t.Errorf("nothing to report: %d %v", w.Code, w.Header())
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for body, want := range map[string]string{
		`{}`: "set either reservation or request_id",
		`{"reservation":"a","request_id":"b","status":200}`:  "set either reservation or request_id",
		`{"request_id":"a","status":99}`:                     "99 is not an integer from 100 to 599",
		`{"request_id":"a","status":"200"}`:                  "must be an integer, is a string",
		`{"request_id":"a","headers":[]}`:                    "must be an object of strings",
		`{"request_id":"a","headers":{"x":"1","X":"2"}}`:     "is given twice",
		`{"request_id":"a","headers":{"x":1}}`:               "must be a string",
		`{"request_id":"a","duration_ms":-1}`:                "is not an integer from 0",
		`{"request_id":"a","bytes":-1}`:                      "is not an integer from 0",
		`{"request_id":"a","code":200}`:                      "unknown field",
		`{"request_id":"` + strings.Repeat("x", 129) + `"}`:  "has 129 bytes",
		`{"request_id":"a","headers":{` + manyHeaders + `}}`: "at most 64 headers",
	} {
		if w := ask(t, h, "POST", "/v1/report", body); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.80s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
	for _, body := range []string{`{"request_id":"unknown","status":200}`, `{"reservation":"unknown","status":200}`} {
		if w := ask(t, h, "POST", "/v1/report", body); w.Code != 404 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := send(t, h, login("?request_id="+strings.Repeat("x", wire.MaxRequestID+1))); w.Code != 400 {
		t.Errorf("a long request id: %d %s", w.Code, w.Body)
	}
}

var manyHeaders = func() string {
	var all []string
	for i := range 65 {
		all = append(all, fmt.Sprintf(`"x-%d":""`, i))
	}
	return strings.Join(all, ",")
}()

// Of many wrong logins at once exactly the limit is allowed, however many proxies ask and report.
func TestReportedLogins(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	var allowed atomic.Int64
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			id := fmt.Sprint("r", i)
			if w := send(t, h, login("?request_id="+id)); w.Code != 200 {
				return
			}
			allowed.Add(1)
			if w := ask(t, h, "POST", "/v1/report", fmt.Sprintf(`{"request_id":%q,"status":401}`, id)); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := allowed.Load(); n != 5 {
		t.Errorf("%d were allowed, want 5", n)
	}
}
