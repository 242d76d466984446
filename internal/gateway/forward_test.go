package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const everyCall = "rules: [{name: all, key: [ip], limits: [1000000/1h]}]"

func TestForwardsRequestAndResponse(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		rw.Header().Set("X-Answer", "42")
		rw.Header().Set("RateLimit", `"own";r=1`)
		rw.Header().Set("X-Request-Id", "the server's")
		rw.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(rw, "%s %s %s %s %s", req.Method, req.Host, req.RequestURI, req.Header.Get("X-Mine"), body)
	})
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(server)}})
	req := newRequest(t, "POST", s.url("/a/../b%7e?x=1&x=%26"), strings.NewReader("the body"), "X-Mine: kept")
	req.Host = "shop.example"
	got := do(t, newClient(t), req)
	if want := "POST shop.example /b~?x=1&x=%26 kept the body"; got.body != want || got.StatusCode != http.StatusTeapot {
		t.Errorf("%d %q, want 418 %q", got.StatusCode, got.body, want)
	}
	if got.Header.Get("X-Answer") != "42" || len(got.Header.Values("RateLimit")) != 2 {
		t.Errorf("the server's headers beside the limiter's: %v", got.Header)
	}
	if ids := got.Header["X-Request-Id"]; len(ids) != 1 || ids[0] == "the server's" {
		t.Errorf("request ids %q", ids)
	}
}

func TestRequestID(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, req.Header.Get("X-Request-Id")) })
	trusting := start(t, setting{trusted: loopback, options: Options{Upstreams: upstreams(server)}})
	trustless := start(t, setting{options: Options{Upstreams: upstreams(server)}})
	client := newClient(t)
	for _, test := range []struct {
		by   *testGateway
		id   string
		kept bool
	}{
		{trusting, "abc-DEF_1.2", true},
		{trusting, "", false},
		{trusting, "a b", false},
		{trusting, `a"b`, false},
		{trusting, "é", false},
		{trusting, strings.Repeat("a", 129), false},
		{trustless, "abc", false},
	} {
		got := get(t, client, test.by.url("/"), "X-Request-Id: "+test.id)
		told := got.Header.Get("X-Request-Id")
		if told != got.body || told == "" || (told == test.id) != test.kept {
			t.Errorf("id %q: the server got %q, the client %q; kept %t", test.id, got.body, told, test.kept)
		}
	}
}

func TestProblems(t *testing.T) {
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) })
	s := start(t, setting{rules: everyCall, options: Options{
		Upstreams: []Upstream{
			{Path: "/dead", URLs: []string{closedAddress(t)}},
			{Path: "/small", URLs: []string{server}, MaxBody: 5},
		},
	}})
	client := newClient(t)
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/dead", "", 502},
		{"GET", "/nowhere", "", 404},
		{"POST", "/small", "12345", 200},
		{"POST", "/small", "123456", 413},
		{"CONNECT", "/small", "", 501},
		{"GET", "/small?a=%zz", "", 400},
		{"GET", "/small?a;b", "", 400},
		{"GET", "/small?" + strings.Repeat("a&", 999), "", 200},
		{"GET", "/small?" + strings.Repeat("a&", 1000), "", 400},
	} {
		for _, chunked := range []bool{false, true} {
			var body io.Reader = strings.NewReader(test.body)
			if chunked {
				body = io.MultiReader(body)
			}
			got := do(t, client, newRequest(t, test.method, s.url(test.path), body))
			if got.StatusCode != test.status {
				t.Errorf("%s %.20s %q: status %d, want %d", test.method, test.path, test.body, got.StatusCode, test.status)
			}
			if test.status != 200 && !got.isProblem() {
				t.Errorf("%s %.20s: %s %s", test.method, test.path, got.Header.Get("Content-Type"), got.body)
			}
		}
	}
}

func (a answer) isProblem() bool {
	return a.Header.Get("Content-Type") == "application/problem+json" && strings.Contains(a.body, fmt.Sprintf(`"status":%d`, a.StatusCode))
}

// The test runs in virtual time, which only the server uses up: on the real clock such a short deadline can pass
// before the request is decided, which has a different response.
func TestServersThatTakeTooLong(t *testing.T) {
	never := func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
	servers := []string{"http://upstream.test"}
	set := setting{rules: everyCall, options: Options{Upstreams: []Upstream{
		{Path: "/slow", URLs: servers, ResponseHeader: time.Second},
		{Path: "/long", URLs: servers, Request: time.Second},
	}}}
	inBubble(t, set, never, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		for _, path := range []string{"/slow", "/long"} {
			if got := get(t, client, "http://gateway.test"+path); got.StatusCode != http.StatusGatewayTimeout || !got.isProblem() {
				t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
			}
		}
	})
}
