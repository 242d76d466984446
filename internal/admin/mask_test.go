package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

// markers are the attributes of a client that viewers must not see.
var markers = map[string]string{"user": "marker-user-7f3a", "ip": "203.0.113.77", "path": "/people/marker-path", "agent": "Marker/1.0"}

// marked sends requests of the marked client under every rule, some of which are denied.
func (s *testAdmin) marked() {
	for range 5 {
		s.call("method", "GET", "path", "/search", "user", markers["user"], "ip", markers["ip"])
	}
	s.call("method", "GET", "path", markers["path"], "agent", markers["agent"], "ip", markers["ip"])
}

// markedRequest returns a successful request to a route, if there is one that does not name the marked client.
// Streams are requested by openStream.
func (s *testAdmin) markedRequest(route admin.Route) *http.Request {
	whole := object("document", someRules)
	about := object("attributes", map[string]string{"user": markers["user"]})
	asked := map[string][2]string{ // query and body, if the path alone is not enough
		"GET /v1/keys":                    {"?rule=per-user"},
		"GET /v1/stats":                   {"?last=1h"},
		"POST /v1/session":                {"", object("token", "nonsense")},
		"POST /v1/session/password":       {"", object("current", "nonsense", "password", "nonsense")},
		"POST /v1/users":                  {"", "{}"},
		"PUT /v1/users/{name}":            {"", "{}"},
		"PUT /v1/users/{name}/password":   {"", "{}"},
		"DELETE /v1/users/{name}":         {"", "{}"},
		"POST /v1/tokens":                 {"", "{}"},
		"DELETE /v1/tokens/{id}":          {"", ""},
		"POST /v1/rules/validate":         {"", whole},
		"POST /v1/rules/diff":             {"", whole},
		"POST /v1/rules/preview":          {"", object("document", strings.Replace(someRules, "3/1h", "1/1h", 1))},
		"PUT /v1/rules":                   {"", object("document", someRules, "base", 1)},
		"POST /v1/rules/rollback":         {"", object("to", 1, "base", 1)},
		"POST /v1/rules/{name}/overrides": {"", object("limit", "1/1h")},
		"POST /v1/explain":                {"", object("attributes", map[string]string{"user": "u1", "path": "/search"})},
		"POST /v1/playground":             {"", `{"lanes":[{"limit":"3/1m"}],"arrivals":[{"at":0}]}`},
		"POST /v1/keys/show":              {"", about},
		"POST /v1/keys/reset":             {"", "{}"},
		"POST /v1/keys/find":              {"", object("value", markers["user"])},
		"POST /v1/blocks":                 {"", "{}"},
		"DELETE /v1/blocks":               {"", "{}"},
		"POST /v1/entitlements":           {"", "{}"},
		"POST /v1/entitlements/show":      {"", about},
		"POST /v1/bans":                   {"", "{}"},
		"DELETE /v1/bans":                 {"", "{}"},
		"POST /v1/bans/lift":              {"", object("all", true, "dry_run", true)},
		"PUT /v1/demo":                    {"", object("running", false)},
		"POST /v1/annotations":            {"", "{}"},
		"DELETE /v1/annotations/{id}":     {"", ""},
		"POST /v1/tools/backtest":         {"", "{}"},
		"POST /v1/tools/suggest":          {"", "{}"},
		"POST /v1/tools/simulate":         {"", object("requests", 1000)},
		"POST /v1/tools/plan":             {"", "{}"},
	}
	with, ok := asked[route.Method+" "+route.Path]
	if !ok && route.Method != "GET" && route.Method+" "+route.Path != "DELETE /v1/session" {
		s.t.Errorf("%s %s is new: say here what to ask it", route.Method, route.Path)
	}
	path := strings.NewReplacer("{number}", "1", "{name}", "per-user", "{id}", "none").Replace(route.Path)
	return s.request(route.Method, path+with[0], with[1])
}

// found returns the markers in a text.
func found(text string) (all []string) {
	for name, value := range markers {
		if strings.Contains(text, value) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// A viewer and an operator request every route of the document, after requests, a ban and a reset of a marked client.
// The operator sees the client, and the viewer never does.
func TestViewersDoNotSeeWhoCalls(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{history: true})
	s.marked()
	about := object("attributes", map[string]string{"user": markers["user"]}, "duration", "1h", "rule", "per-user")
	get[admin.ChangeResult](s, "POST", "/v1/bans", about)
	s.marked()
	get[admin.Annotation](s, "POST", "/v1/annotations", object("text", fmt.Sprintf("banned user=%q", markers["user"])))
	shown := map[string]bool{} // to the operator
	for _, route := range admin.Routes() {
		name := route.Method + " " + route.Path
		if streams(t, name) {
			continue
		}
		asked := func(token string) *httptest.ResponseRecorder {
			r := s.markedRequest(route)
			bearer(token)(r)
			return s.serve(r)
		}
		seen := asked(viewerToken).Body.String()
		if who := found(seen); who != nil {
			t.Errorf("%s tells a viewer %q: %.500s", name, who, seen)
		}
		w := asked(operatorToken)
		if strings.Contains(name, "session") {
			continue // it may have ended
		}
		shown[name] = found(w.Body.String()) != nil
		if hidden := strings.Contains(seen, veiledMarker("user")) || strings.Contains(seen, veiledMarker("ip")); shown[name] && route.Role <= admin.Viewer && !hidden {
			t.Errorf("%s shows the operator somebody, and a viewer nobody: %.500s", name, seen)
		}
	}
	for _, name := range []string{"GET /v1/stats", "GET /v1/events/recent", "GET /v1/keys", "POST /v1/keys/show", "POST /v1/rules/preview", "GET /v1/audit", "GET /v1/annotations", "POST /v1/tools/backtest"} {
		if !shown[name] {
			t.Errorf("%s does not show the operator who calls: this test cannot fail", name)
		}
	}
}

func veiledMarker(name string) string { return admin.Veiled("secret", name, markers[name]) }

// streams reports whether the document says that an operation responds with a stream.
func streams(t *testing.T, operation string) bool {
	answers, _ := theDocument(t).Operations()[operation]["responses"].(map[string]any)
	answer, _ := answers["200"].(map[string]any)
	content, _ := answer["content"].(map[string]any)
	return content["text/event-stream"] != nil
}

func TestViewersDoNotSeeWhoCallsInStreams(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.marked()
	server := httptest.NewServer(s.door)
	defer server.Close()
	all := 0
	for _, route := range admin.Routes() {
		name := route.Method + " " + route.Path
		if !streams(t, name) {
			continue
		}
		all++
		if text := s.readStream(server.URL+route.Path, viewerToken); found(text) != nil {
			t.Errorf("%s tells a viewer: %.500s", name, text)
		}
		if text := s.readStream(server.URL+route.Path, operatorToken); found(text) == nil {
			t.Errorf("%s does not tell an operator: %.500s", name, text)
		}
	}
	if all == 0 {
		t.Error("there are no streams")
	}
}

// readStream reads until the marked client appears, by name or veiled. The client sends requests all the time.
func (s *testAdmin) readStream(url, token string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patient)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	bearer(token)(r)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(&text, lines.Text())
		if found(text.String()) != nil || strings.Contains(text.String(), veiledMarker("user")) {
			return text.String()
		}
		s.marked()
	}
	s.t.Fatalf("%s has ended: %v: %.500s", url, lines.Err(), text.String())
	return ""
}

// A value of a viewer's choice finds nothing, so veiled values cannot be guessed.
func TestViewersCannotSearchForWhoCalls(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.marked()
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		return s.serve(s.request(method, path, body, "Authorization", "Bearer "+viewerToken))
	}
	for _, path := range []string{"/v1/events/recent?attribute=user&value=u1", "/v1/events/recent?attribute=path", "/v1/events?attribute=ip&value=192.0.2.1"} {
		if w := ask("GET", path, ""); w.Code != 400 || !strings.Contains(w.Body.String(), "only operators may search") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := ask("GET", "/v1/events/recent?attribute=method&value=GET", ""); w.Code != 200 || !strings.Contains(w.Body.String(), veiledMarker("user")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	who := object("attributes", map[string]string{"user": markers["user"]})
	for _, path := range []string{"/v1/keys/show", "/v1/rules/preview"} {
		if w := ask("POST", path, who); w.Code != 403 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	// An explanation repeats a viewer's input as it was sent: its hash would identify the client elsewhere.
	w := ask("POST", "/v1/explain", object("attributes", map[string]string{"user": markers["user"], "path": "/search"}))
	if w.Code != 200 || strings.Contains(w.Body.String(), veiledMarker("user")) || !strings.Contains(w.Body.String(), markers["user"]) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// For clients with hostile or truncated names, the audit shows no more than for others.
func TestAuditIsVeiled(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	names := []string{`quote" user="marker-1`, `back\slash"marker-2`, "new\nline marker-3", strings.Repeat("ä", 120) + " marker-4", "marker-5\\"}
	for _, name := range names {
		get[admin.ChangeResult](s, "POST", "/v1/bans", object("attributes", map[string]string{"user": name}, "duration", "1h", "rule", "per-user"))
	}
	w := s.serve(s.request("GET", "/v1/audit", "", "Authorization", "Bearer "+viewerToken))
	if w.Code != 200 || strings.Contains(w.Body.String(), "marker") || strings.Count(w.Body.String(), "rule per-user user=#") != len(names) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.ask("GET", "/v1/audit", ""); strings.Count(w.Body.String(), "marker-") != len(names) {
		t.Errorf("%s", w.Body)
	}
}

// Showing the names of clients is recorded in the audit, once an hour.
func TestRevealsAreWrittenDown(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	reveals := func() (n int) {
		r := s.request("GET", "/v1/audit", "", "Authorization", "Bearer "+viewerToken)
		return strings.Count(s.serve(r).Body.String(), `"reveal"`)
	}
	look := func(token string) {
		r := s.request("GET", "/v1/stats", "", "Authorization", "Bearer "+token)
		r.RemoteAddr = "192.0.2.1:1"
		s.serve(r)
	}
	look(operatorToken) // no requests yet: no client is shown
	s.marked()
	look(viewerToken)
	for range 3 {
		look(operatorToken)
	}
	s.clock.pass(time.Hour + time.Second)
	look(operatorToken)
	s.door.Close() // waits until it is recorded
	if n := reveals(); n != 2 {
		t.Errorf("%d times", n)
	}
}
