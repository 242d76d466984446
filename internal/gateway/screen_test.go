package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// pathPieces make a corpus of paths that servers are known to disagree about.
var pathPieces = []string{
	"/", "//", "/.", "/..", "/./", "/../", "/a", "/A", "/%61", "/%2e", "/%2e%2e", "/%2E.", "/.%2e/", "/%2f", "/%2F", "%2f..%2f", "/a;b", "/..;/",
	"/.;x/", "/;", "/%3b", "/%5c", "/\\", "/%00", "/%0a", "/%7f", "/%25", "/%252e", "/%25%32%65", "/é", "/%C3%A9", "/%ff", "/%", "/%zz", "/%u0041",
	"/{x}", "/%7Bx%7D", "/*", "/~", "/%7e", "/+", "/%2B", "/:", "/@", "/[x]", "/'", "/\"", "/<", "/^", "/|", "/admin",
}

// The server gets the path that the limiter matched, whatever was sent.
func TestPathIsOneForLimiterAndServer(t *testing.T) {
	var got string
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) { got = req.RequestURI })
	s := newTestGateway(t, setting{options: Options{Upstreams: upstreams(server)}})
	forwarded, refused := 0, 0
	try := func(path string) {
		got = ""
		code, known := s.ask(t, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		calls := s.counted()
		switch {
		case !known: // net/http refused it
		case code == http.StatusBadRequest && got == "" && len(calls) == 0:
			refused++
		case code == http.StatusOK && len(calls) == 1:
			forwarded++
			if seen := attributeOf(&calls[0], "path"); seen != got {
				t.Errorf("path %q: the limiter saw %q, the server %q", path, seen, got)
			}
			if strings.Contains(got, "//") || slices.ContainsFunc(strings.Split(got, "/"), func(s string) bool { return s == "." || s == ".." }) {
				t.Errorf("path %q was forwarded as %q", path, got)
			}
		default:
			t.Errorf("path %q: status %d, counted %d times, the server got %q", path, code, len(calls), got)
		}
	}
	for _, a := range pathPieces {
		for _, b := range pathPieces {
			try(a + b)
			try("/admin" + a + "x" + b)
		}
	}
	if forwarded < 1000 || refused < 1000 {
		t.Errorf("%d forwarded, %d refused: the corpus has lost its point", forwarded, refused)
	}
}

// ask passes a request, given as text, to the handler without a connection. known is false if net/http cannot parse
// it.
func (s *testGateway) ask(t testing.TB, text string) (status int, known bool) {
	t.Helper()
	req, err := http.ReadRequest(newReader(text))
	if err != nil {
		return 0, false
	}
	req.RemoteAddr = "192.0.2.7:1234"
	rw := httptest.NewRecorder()
	s.Handler().ServeHTTP(rw, req)
	return rw.Code, true
}

// Rules see the same too: a rewritten path matches what it matched before.
func TestNormalFormMatchesTheSameRules(t *testing.T) {
	doc, err := rules.Parse("rules.yaml", []byte(`rules: [{name: admin, match: {path: "/admin/{rest...}"}, key: [], limits: [1/1h]}]`))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "of the tests"})
	if err != nil {
		t.Fatal(err)
	}
	matches := func(path string) bool {
		var m rules.Match
		snapshot.Match(&penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: path}}, Cost: 1}, 1, &m)
		return len(m.Rules) > 0
	}
	both := [2]int{}
	for _, a := range pathPieces {
		for _, b := range pathPieces {
			req, err := http.ReadRequest(newReader("GET /admin" + a + "x" + b + " HTTP/1.1\r\nHost: a\r\n\r\n"))
			if err != nil {
				continue
			}
			sent := req.URL.EscapedPath()
			if (&Gateway{keepSlashes: true}).screenPath(req) != nil {
				continue
			}
			if before, after := matches(sent), matches(req.URL.EscapedPath()); before != after {
				t.Errorf("%q matches: %t; forwarded as %q: %t", sent, before, req.URL.EscapedPath(), after)
			} else if after {
				both[1]++
			} else {
				both[0]++
			}
		}
	}
	if both[0] == 0 || both[1] == 0 {
		t.Errorf("%d outside and %d inside: the corpus has lost its point", both[0], both[1])
	}
}

// An escaped slash is a slash to some servers.
func TestEscapedSlashes(t *testing.T) {
	for _, path := range []string{"/admin%2Fusers", "/public/..%2fadmin", "/%2F", "/a%2f"} {
		for _, keep := range []bool{false, true} {
			req, err := http.ReadRequest(newReader("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"))
			if err != nil {
				t.Fatal(err)
			}
			if refused := (&Gateway{keepSlashes: keep}).screenPath(req) != nil; refused == keep {
				t.Errorf("%s, kept %t: refused %t", path, keep, refused)
			}
		}
	}
}

// A method that is not a token cannot be forwarded: it is refused before any other check. HTTP/2 accepts it.
func TestInvalidMethods(t *testing.T) {
	s := newTestGateway(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(closedAddress(t))}})
	for _, method := range []string{"G ET", "GET\r\nX: y", "GET\x00", "G(T", "GÉT", " GET", "GET/", "\x7f"} {
		req := httptest.NewRequest("GET", "http://a/", nil)
		req.Method, req.ProtoMajor = method, 2
		rw := httptest.NewRecorder()
		s.Handler().ServeHTTP(rw, req)
		if rw.Code != http.StatusBadRequest || !strings.Contains(rw.Body.String(), "invalid method") || len(s.counted()) != 0 {
			t.Errorf("%q: status %d, %s", method, rw.Code, rw.Body)
		}
	}
	if h := s.Health()[0]; h.Failures != 0 {
		t.Errorf("%+v", h)
	}
}

// forgeries are headers with which a client may pretend to be another one.
func forgeries() []string {
	names := []string{
		"X-Forwarded-For", "Forwarded", "Forwarded-For", "X-Forwarded", "Client-IP", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Client-IP",
		"X-Cluster-Client-IP", "X-Original-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-Client-Cert", "X-Original-URL", "X-Rewrite-URL", "X-Remote-Addr",
		"X-Original-Host", "X-Original-Method", "X-Host", "WL-Proxy-Client-IP", "Proxy-Client-IP", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy",
		"X-Penstock-Verdict", "X-RateLimit-Remaining", "RateLimit", "RateLimit-Policy", "X-Envoy-External-Address",
	}
	var lines []string
	for _, name := range names {
		for _, spelt := range []string{
			name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ToLower(strings.ReplaceAll(name, "-", "_")),
			strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1), strings.ReplaceAll(name, "-", "~"),
		} {
			for _, value := range []string{"203.0.113.9", "203.0.113.9, 198.51.100.2", "for=203.0.113.9", "127.0.0.1", "unknown", ""} {
				lines = append(lines, spelt+": "+value)
			}
		}
	}
	return lines
}

// What an untrusted client says about its origin is neither counted nor forwarded.
func TestForgedHeaders(t *testing.T) {
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) {
		for name, lines := range req.Header {
			for _, line := range lines {
				if strings.Contains(line, "203.0.113.9") || line == "unknown" || line == "127.0.0.1" && name != "X-Forwarded-For" {
					t.Errorf("the server got %s: %s", name, line)
				}
			}
		}
		if got := req.Header["X-Forwarded-For"]; len(got) != 1 || got[0] != "127.0.0.1" {
			t.Errorf("X-Forwarded-For %q", got)
		}
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server)}})
	client := newClient(t)
	lines := forgeries()
	for i, line := range lines {
		other := lines[(i*7+3)%len(lines)]
		get(t, client, s.url("/"), line, other, "Connection: X-Forwarded-For, X-Forwarded-Host, X-Request-Id")
	}
	calls := s.counted()
	if len(calls) != len(lines) || len(lines) < 500 {
		t.Errorf("%d requests, %d counted", len(lines), len(calls))
	}
	for i := range calls {
		if ip := attributeOf(&calls[i], "ip"); ip != "127.0.0.1" {
			t.Errorf("%s was counted as %s", lines[i], ip)
		}
	}
}

func TestTrustedProxyIsBelieved(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "Forwarded", "X-Real-Ip"} {
			fmt.Fprintf(rw, "%s\n", strings.Join(req.Header[name], "|"))
		}
	})
	s := start(t, setting{rules: everyCall, trusted: loopback, options: Options{Upstreams: upstreams(server)}})
	got := get(t, newClient(t), s.url("/"), "X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: shop.example",
		"X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "Forwarded: for=203.0.113.9", "X-Real-Ip: 203.0.113.9",
		"Connection: X-Forwarded-For")
	want := "198.51.100.1, 203.0.113.9, 127.0.0.1\nshop.example\nhttps\n443\nfor=203.0.113.9, for=127.0.0.1;proto=http\n203.0.113.9\n"
	if got.body != want {
		t.Errorf("the server got\n%swant\n%s", got.body, want)
	}
	if calls := s.counted(); len(calls) != 1 || attributeOf(&calls[0], "ip") != "203.0.113.9" {
		t.Errorf("counted %v", calls)
	}
}

// A method override is dropped even from trusted peers, which forward what clients send.
func TestOverridesAreDropped(t *testing.T) {
	overrides := []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy"}
	var got http.Header
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) { got = req.Header })
	for _, test := range []struct {
		name    string
		forward []string
	}{{"default", nil}, {"forwarded", overrides}} {
		s := start(t, setting{trusted: loopback, options: Options{Upstreams: upstreams(server), ForwardHeaders: test.forward}})
		for _, name := range overrides {
			get(t, newClient(t), s.url("/"), name+": DELETE")
			if there := got.Get(name) != ""; there != (test.forward != nil) {
				t.Errorf("%s: %s was forwarded: %t", test.name, name, there)
			}
		}
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Request-ID", "RateLimit", "X Y"} {
		g := &Gateway{proxyHeader: "X-Real-Ip"}
		if _, err := g.checkForwarded([]string{name}); err == nil {
			t.Errorf("%q can be forwarded from anybody", name)
		}
	}
}

func TestTrace(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	for _, allowed := range []bool{false, true} {
		s := newTestGateway(t, setting{options: Options{Upstreams: upstreams(server), Trace: allowed}})
		for method, want := range map[string]map[bool]int{"TRACE": {false: 501, true: 200}, "TRACK": {false: 501, true: 200}, "CONNECT": {false: 501, true: 501}} {
			if got, _ := s.ask(t, method+" / HTTP/1.1\r\nHost: a\r\n\r\n"); got != want[allowed] {
				t.Errorf("%s, allowed %t: status %d", method, allowed, got)
			}
		}
	}
}

// A rule can read a header whose name looks like an alias, and then the usual spelling is the alias.
func TestUnderscoreThatRulesRead(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, req.Header.Get("X_Api_Key")) })
	s := start(t, setting{
		rules:   "attributes: {key: {header: X_API_Key}}\nrules: [{name: keys, key: [key], limits: [1000/1h]}]",
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	got := get(t, client, s.url("/"), "X_Api_Key: a")
	if calls := s.counted(); got.body != "a" || len(calls) != 1 || attributeOf(&calls[0], "key") != "a" {
		t.Errorf("the server got %q, counted %v", got.body, calls)
	}
	for _, headers := range [][]string{{"X_Api_Key: a", "X-Api-Key: b"}, {"X-Api-Key: b"}} {
		got := get(t, client, s.url("/"), headers...)
		if calls := s.counted(); got.StatusCode != http.StatusBadRequest || len(calls) != 0 {
			t.Errorf("%q: status %d, counted %d times", headers, got.StatusCode, len(calls))
		}
	}
}

func TestHeadersAreOneForLimiterAndServer(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("X-Lines", fmt.Sprint(len(req.Header["X-User"])))
		io.WriteString(rw, req.Header.Get("X-User"))
		if len(req.Header["X_user"]) > 0 || len(req.Header["X.user"]) > 0 {
			t.Error("the server got an alias")
		}
	})
	s := start(t, setting{
		rules:   "attributes: {user: {header: X-User}}\nrules: [{name: users, key: [user?], limits: [1000/1h]}]",
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	for _, test := range []struct {
		headers []string
		want    string
	}{
		{[]string{"X-User: a"}, "a"},
		{[]string{"X-User: a, b"}, "a, b"},
		{[]string{"X_User: b"}, ""},
		{[]string{"X-User: a", "X_User: b", "X.User: c"}, "a"},
		{[]string{"X-User: a", "Connection: x-user"}, ""},
		{[]string{"X-User: a", "Connection: close, X-USER , te"}, ""},
	} {
		got := get(t, client, s.url("/"), test.headers...)
		calls := s.counted()
		if len(calls) != 1 || attributeOf(&calls[0], "user") != test.want || got.body != test.want {
			t.Errorf("%q: counted as %v, the server got %q; want %q", test.headers, calls, got.body, test.want)
		}
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Content-Type", "Referer", "Idempotency-Key", "X-User"} {
		got := get(t, client, s.url("/"), name+": a", name+": b")
		if calls := s.counted(); got.StatusCode != http.StatusBadRequest || len(calls) != 0 {
			t.Errorf("two lines of %s: status %d, counted %d times", name, got.StatusCode, len(calls))
		}
	}
}
