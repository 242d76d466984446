package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/readiness"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/internal/wire"
)

func TestNewSaysAllThatIsMissing(t *testing.T) {
	_, err := api.New(api.Options{Limits: api.Limits{Body: -1}})
	for _, want := range []string{"a decider", "a concluder", "a reader", "a writer", "-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

// Exactly the limit is allowed, however many clients ask at once over real connections.
func TestExactlyTheLimitPasses(t *testing.T) {
	server := httptest.NewServer(newHandler(t, setup{}))
	defer server.Close()
	const asked, limit = 50, 3
	body := `{"attributes":{"ip":"192.0.2.1","path":"/limited/x"}}`
	var allowed atomic.Int64
	var all sync.WaitGroup
	for range asked {
		all.Go(func() {
			response, err := http.Post(server.URL+"/v1/check", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			var v penstock.Verdict
			if err == nil {
				err = wire.ParseVerdict(text, 0, &v)
			}
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("%d %s: %v", response.StatusCode, text, err)
			}
			if v.Allowed {
				allowed.Add(1)
			}
		})
	}
	all.Wait()
	if n := allowed.Load(); n != limit {
		t.Errorf("%d of %d passed, want %d", n, asked, limit)
	}
}

func TestCheck(t *testing.T) {
	h := newHandler(t, setup{now: at(someday)})
	for _, test := range []struct{ name, body, want string }{
		{"no rule", call("/", "u"), `"allowed":true,"rule":"","reason":"no_rule"`},
		{"shadow", call("/tried", "u"), `"shadow":true`},
		{"peek", `{"attributes":{"method":"GET","path":"/search","user":"p"},"cost":0}`, `"remaining":100,`},
		{"charge", `{"attributes":{"method":"GET","path":"/search","user":"p"},"cost":40}`, `"remaining":60,`},
		{"never", `{"attributes":{"method":"GET","path":"/search","user":"p"},"cost":101}`, `"retry_after_ms":null`},
		{"lease", call("/jobs", "u"), `"reservation":"`},
		{"first of a leaky bucket", call("/even", "u"), `"delay_ms":0`},
		{"cannot be held", call("/even", "u"), `"allowed":false`},
		{"can be held", `{"attributes":{"path":"/even"},"max_delay_ms":500}`, `"allowed":true,"rule":"even","reason":"ok","quality":"exact","limit":6,"remaining":4,"retry_after_ms":0,"reset_after_ms":200,"delay_ms":100`},
		{"in UTF-8", `{"attributes":{"path":"/é","user":"\u00e9"}}`, `"reason":"no_rule"`},
	} {
		w := ask(t, h, "POST", "/v1/check", test.body)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s, want %s", test.name, w.Code, w.Body, test.want)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", test.name, got)
		}
	}
}

// While the store is unavailable, checks are answered by each rule's policy.
func TestCheckWithoutStore(t *testing.T) {
	h := newHandler(t, setup{store: unavailableStore{}})
	for path, want := range map[string]string{
		"/search": `"allowed":true,"rule":"","reason":"store_error","quality":"open"`,
		"/closed": `"allowed":false,"rule":"closed","reason":"store_error","quality":"closed"`,
	} {
		if w := ask(t, h, "POST", "/v1/check", call(path, "u")); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestBatch(t *testing.T) {
	for _, slow := range []bool{false, true} {
		h := newHandler(t, setup{slow: slow, now: at(someday)})
		limited := `{"attributes":{"ip":"192.0.2.1","path":"/limited/x"}}`
		w := ask(t, h, "POST", "/v1/check/batch", `{"calls":[`+strings.Repeat(limited+",", 4)+call("/", "u")+`]}`)
		var answer struct {
			Results []struct {
				Allowed bool
				Rule    string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(answer.Results); got != "[{true per-ip} {true per-ip} {true per-ip} {false per-ip} {true }]" {
			t.Errorf("slow %v: %s", slow, got)
		}
	}
}

func TestMistakesAreAnsweredWithTheirPlace(t *testing.T) {
	h := newHandler(t, setup{})
	w := ask(t, h, "POST", "/v1/check/batch", `{"calls":[{"attributes":{"user":7},"costs":1}]}`)
	const want = `{"title":"Bad Request","status":400,` +
		`"detail":"calls[0].attributes.user: must be a string, is a number; calls[0].costs: unknown field; there are domain, attributes, cost, id, max_delay_ms",` +
		`"errors":[{"at":"calls[0].attributes.user","message":"must be a string, is a number"},` +
		`{"at":"calls[0].costs","message":"unknown field; there are domain, attributes, cost, id, max_delay_ms"}]}`
	if w.Code != http.StatusBadRequest || w.Body.String() != want || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s\nwant %s", w.Code, w.Body, want)
	}
}

func TestWhatIsNotAccepted(t *testing.T) {
	h := newHandler(t, setup{limits: api.Limits{Body: 200, BatchBody: 400}})
	long := func(n int) string { return `{"attributes":{"x":"` + strings.Repeat("y", n) + `"}}` }
	for _, test := range []struct {
		method, path, contentType, body string
		status                          int
		header, value                   string
	}{
		{"GET", "/v1/check", "", "", 405, "Allow", "POST"},
		{"POST", "/v1/reservations/x", "application/json", "{}", 405, "Allow", "DELETE"},
		{"PUT", "/healthz", "", "", 405, "Allow", "GET, HEAD"},
		{"POST", "/v1/checks", "application/json", "{}", 404, "", ""},
		{"POST", "/v1/check", "", "{}", 415, "Accept-Post", "application/json"},
		{"POST", "/v1/check", "text/plain", "{}", 415, "", ""},
		{"POST", "/v1/check", "application/json; charset=latin1", "{}", 415, "", ""},
		{"POST", "/v1/check", "application/json; charset=UTF-8", "{}", 400, "", ""},
		{"POST", "/v1/check", "application/json", long(200), 413, "", ""},
		{"POST", "/v1/check", "application/json", long(100), 200, "", ""},
		{"POST", "/v1/check/batch", "application/json", `{"calls":[` + long(200) + `]}`, 200, "", ""},
		{"POST", "/v1/check/batch", "application/json", `{"calls":[` + long(400) + `]}`, 413, "", ""},
		{"POST", "/v1/reservations/x/settle", "application/json", long(200), 413, "", ""},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
		if test.contentType != "" {
			r.Header.Set("Content-Type", test.contentType)
		}
		w := send(t, h, r)
		if w.Code != test.status || test.header != "" && w.Header().Get(test.header) != test.value {
			t.Errorf("%s %s %s %.40s: %d %v %s", test.method, test.path, test.contentType, test.body, w.Code, w.Header(), w.Body)
		}
		if w.Code >= 400 {
			if _, err := problem.Parse(w.Body.Bytes()); err != nil {
				t.Errorf("%s %s: %v: %s", test.method, test.path, err, w.Body)
			}
		}
	}
	r := httptest.NewRequest("POST", "/v1/check", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	if w := send(t, h, r); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("encoded: %d %s", w.Code, w.Body)
	}
}

func TestDocumentAndHealthAreServed(t *testing.T) {
	h := newHandler(t, setup{})
	if w := ask(t, h, "GET", "/openapi.json", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"/v1/check"`) {
		t.Errorf("%d %.100s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/healthz", ""); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := ask(t, h, "GET", "/healthcheck", "")
	if w.Code != 200 || w.Body.String() != "OK" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	theDocument(t).Conforms(t, "GET", "/healthcheck", w)
}

// A node that is not ready says so to load balancers, and to probes of envoyproxy/ratelimit with the status that they
// expect. /healthz is about the process alone.
func TestHealthOfANodeThatIsNotReady(t *testing.T) {
	h := newHandler(t, setup{ready: func() readiness.State { return readiness.State{NotReady: errors.New("draining")} }})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/healthcheck": 500} {
		w := ask(t, h, "GET", path, "")
		if w.Code != want || want != 200 && !strings.Contains(w.Body.String(), "draining") {
			t.Errorf("%s: %d %q, want %d", path, w.Code, w.Body, want)
		}
	}
}

// Health checks may send any Host; everything else needs one under which the listener is reached.
func TestHosts(t *testing.T) {
	h := newHandler(t, setup{hosts: webguard.Hosts{Loopback: true}})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/healthcheck": 200, "/openapi.json": 403, "/v1/auth": 403} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "rebound.example"
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}
