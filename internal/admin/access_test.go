package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

// login starts a session and returns its cookie.
func (s *testAdmin) login(token string) *http.Cookie {
	s.t.Helper()
	w := s.serve(s.request("POST", "/v1/session", object("token", token)))
	if w.Code != http.StatusOK {
		s.t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()[0]
}

func with(c *http.Cookie) func(*http.Request) { return func(r *http.Request) { r.AddCookie(c) } }

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// Every route, requested with every kind of access, admits exactly the roles that it names.
func TestEveryRouteWithEveryAccess(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	crossSite := func(r *http.Request) {
		with(s.login(operatorToken))(r)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	for _, access := range []struct {
		name    string
		role    admin.Role // that the access has
		refusal int        // if the role is not enough
		show    func(*http.Request)
	}{
		{"nothing", admin.Anybody, 401, func(*http.Request) {}},
		{"an empty token", admin.Anybody, 401, bearer("")},
		{"an unknown token", admin.Anybody, 401, bearer("nonsense-0123456789")},
		{"half a token", admin.Anybody, 401, bearer(operatorToken[:10])},
		{"a token that is not a bearer's", admin.Anybody, 401, func(r *http.Request) { r.Header.Set("Authorization", operatorToken) }},
		{"a token as password", admin.Anybody, 401, func(r *http.Request) { r.SetBasicAuth("operator", operatorToken) }},
		{"a token in the query", admin.Anybody, 401, func(r *http.Request) { r.URL.RawQuery = "token=" + operatorToken }},
		{"a token as cookie", admin.Anybody, 401, with(&http.Cookie{Name: "penstock_session", Value: operatorToken})},
		{"an unknown session", admin.Anybody, 401, with(&http.Cookie{Name: "penstock_session", Value: "nonsense"})},
		{"a session in the cookie of TLS", admin.Anybody, 401, func(r *http.Request) {
			with(&http.Cookie{Name: "__Host-penstock", Value: s.login(operatorToken).Value})(r)
		}},
		{"a viewer's token", admin.Viewer, 403, bearer(viewerToken)},
		{"a viewer's session", admin.Viewer, 403, func(r *http.Request) { with(s.login(viewerToken))(r) }},
		{"the admin token", admin.Administrator, 0, bearer(operatorToken)},
		{"a session of the admin token", admin.Administrator, 0, func(r *http.Request) { with(s.login(operatorToken))(r) }},
		{"a wrong token beside a session", admin.Anybody, 401, func(r *http.Request) {
			with(s.login(operatorToken))(r)
			bearer("nonsense-0123456789")(r)
		}},
	} {
		for _, route := range admin.Routes() {
			r := s.routeRequest(route)
			access.show(r)
			w := s.serve(r)
			refused := w.Code == 401 || w.Code == 403
			if want := access.role < route.Role; refused != want || want && w.Code != access.refusal {
				t.Errorf("%s: %s %s: %d %.200s", access.name, route.Method, route.Path, w.Code, w.Body)
			}
		}
	}
	for _, route := range admin.Routes() {
		r := s.routeRequest(route)
		crossSite(r)
		safe := route.Method == "GET"
		if w := s.serve(r); (w.Code == 403) == safe {
			t.Errorf("a page of another site: %s %s: %d", route.Method, route.Path, w.Code)
		}
	}
}

// routeRequest returns a request without effect: bodies are missing, and streams have ended.
func (s *testAdmin) routeRequest(route admin.Route) *http.Request {
	over, end := context.WithCancel(s.t.Context())
	end()
	r := s.request(route.Method, strings.NewReplacer("{number}", "1", "{name}", "per-user", "{id}", "none").Replace(route.Path), "")
	if route.Path == "/v1/events" || route.Path == "/v1/overview" {
		r = r.WithContext(over)
	}
	return r
}

func TestEveryRouteNamesItsRole(t *testing.T) {
	for _, r := range admin.Routes() {
		if r.Role == admin.Nobody {
			t.Errorf("%s %s is for nobody", r.Method, r.Path)
		}
		if r.Method != "GET" && r.Role == admin.Viewer && !strings.Contains("/v1/session /v1/session/password /v1/tokens /v1/tokens/{id} /v1/rules/validate /v1/rules/diff /v1/explain /v1/playground /v1/tools/plan", r.Path) {
			t.Errorf("%s %s changes something, for viewers", r.Method, r.Path)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for _, r := range []*http.Request{
		s.request("GET", "/healthz", ""), s.request("GET", "/v1/status", ""), s.request("GET", "/nowhere", ""),
		s.request("POST", "/v1/status", ""), s.request("GET", "/openapi.json", ""),
	} {
		h := s.serve(r).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", r.URL, name, h.Get(name))
			}
		}
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "object-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s: %s", r.URL, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("the policy is %s", csp)
		}
	}
}

// A name of another site that resolves to this machine is refused.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8091": 200, "127.0.0.1": 200, "127.0.0.2:1": 200, "[::1]:8091": 200,
		"evil.example": 403, "localhost.evil.example": 403, "192.0.2.1": 403,
	} {
		r := s.request("GET", "/openapi.json", "")
		r.Host = host
		if w := s.serve(r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
		r = s.request("GET", "/healthz", "")
		r.Host = host
		if w := s.serve(r); w.Code != 200 {
			t.Errorf("health check for %q: %d", host, w.Code)
		}
	}
}

func TestOtherMethodsAndPaths(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for _, test := range []struct {
		method, path string
		code         int
		allow        string
	}{
		{"PATCH", "/v1/rules", 405, "GET, HEAD, PUT"},
		{"POST", "/v1/status", 405, "GET, HEAD"},
		{"PUT", "/v1/bans", 405, "GET, HEAD, POST, DELETE"},
		{"GET", "/v1/rules/per-user/overrides", 405, "POST"},
		{"GET", "/v1/rules/nonsense", 404, ""},
		{"GET", "/v1/", 404, ""},
		{"GET", "/", 404, ""},
		{"HEAD", "/v1/status", 200, ""},
	} {
		w := s.ask(test.method, test.path, "")
		if w.Code != test.code || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, allowed %q: %s", test.method, test.path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
}

// Failed logins are limited by network until the minute is over, whether a token is sent to /v1/session or with each
// request. A valid token passes at any time and does not count as an attempt.
func TestLoginIsLimited(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	ask := func(from string, r *http.Request) *httptest.ResponseRecorder {
		r.RemoteAddr = from
		return s.serve(r)
	}
	session := func(from, token string) *httptest.ResponseRecorder {
		return ask(from, s.request("POST", "/v1/session", object("token", token)))
	}
	bearer := func(from, token string) *httptest.ResponseRecorder {
		return ask(from, s.request("GET", "/v1/session", "", "Authorization", "Bearer "+token))
	}
	ways := map[string]func(from, token string) *httptest.ResponseRecorder{"session": session, "bearer": bearer}
	for range 20 {
		if w := session("[2001:db8::ffff]:1", operatorToken); w.Code != 200 {
			t.Fatalf("a good token: %d %s", w.Code, w.Body)
		}
	}
	for i := range 10 {
		way := ways[[]string{"session", "bearer"}[i%2]]
		if w := way(fmt.Sprintf("[2001:db8::%x]:1", i+1), "nonsense"); w.Code != 401 || w.Header().Get("Connection") != "" {
			t.Fatalf("attempt %d: %d %v %s", i, w.Code, w.Header(), w.Body)
		}
	}
	for name, way := range ways {
		w := way("[2001:db8::ffff]:1", "nonsense")
		if wait, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != 429 || err != nil || wait < 1 || wait > 60 || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: a wrong token: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
		for _, token := range []string{operatorToken, viewerToken} {
			if w := way("[2001:db8::ffff]:1", token); w.Code != 200 {
				t.Errorf("%s: a good token: %d %s", name, w.Code, w.Body)
			}
		}
		if w := way("[2001:db8:0:1::1]:1", "nonsense"); w.Code != 401 {
			t.Errorf("%s: another network: %d %s", name, w.Code, w.Body)
		}
	}
	s.clock.pass(time.Minute + time.Second)
	if w := session("[2001:db8::ffff]:1", "nonsense"); w.Code != 401 {
		t.Errorf("a minute later: %d %s", w.Code, w.Body)
	}
}

func TestLogTellsNoToken(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	cookie := s.login(operatorToken)
	s.serve(s.request("POST", "/v1/session", object("token", "nonsense-0123456789")))
	for _, secret := range []string{operatorToken, viewerToken, cookie.Value, "nonsense-0123456789"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	if !strings.Contains(s.log.String(), `"msg":"login"`) || !strings.Contains(s.log.String(), "a login was refused") {
		t.Errorf("the log is %s", s.log)
	}
}

// Refused logins are counted. Only some are logged, without the address.
func TestRefusedLoginsAreCounted(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	if got := s.door.RefusedLogins(); len(got) != 3 || got["wrong_token"] != 0 || got["too_many_attempts"] != 0 {
		t.Errorf("before any: %v", got)
	}
	attempt := func(r *http.Request) {
		r.RemoteAddr = "192.0.2.7:1"
		s.serve(r)
	}
	for range 6 {
		attempt(s.request("POST", "/v1/session", object("token", "nonsense")))
		attempt(s.request("GET", "/v1/status", "", "Authorization", "Bearer nonsense"))
	}
	s.login(operatorToken)
	if got := s.door.RefusedLogins(); got["wrong_token"] != 10 || got["too_many_attempts"] != 2 {
		t.Errorf("%v", got)
	}
	const line = `"msg":"a login was refused"`
	if n := strings.Count(s.log.String(), line); n != 1 {
		t.Errorf("%d lines: %s", n, s.log)
	}
	s.clock.pass(11 * time.Second)
	attempt(s.request("POST", "/v1/session", object("token", "nonsense")))
	from := admin.Veiled("secret", "ip", "192.0.2.7")
	for _, want := range []string{`"level":"WARN"`, from, `"reason":"wrong_token"`, `"reason":"too_many_attempts"`, `"since_last_line":12`} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, s.log)
		}
	}
	if n := strings.Count(s.log.String(), line); n != 2 || strings.Contains(s.log.String(), "192.0.2.7") {
		t.Errorf("%d lines: %s", n, s.log)
	}
}
