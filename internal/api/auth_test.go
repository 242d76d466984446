package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}

// forward returns a request of a proxy at 10.0.0.5 whose client is 192.0.2.1. Headers are name, value and so on; an
// empty value removes a default.
func forward(query string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/auth"+query, nil)
	r.RemoteAddr = "10.0.0.5:4711"
	r.Header = http.Header{"X-Forwarded-Uri": {"/limited/a?q=1"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"}, "X-Forwarded-For": {"192.0.2.1"}}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// field returns a header as written: limit headers use the spelling of their specification.
func field(w *httptest.ResponseRecorder, name string) string {
	return strings.Join(w.Header()[name], ", ")
}

func TestAuth(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for remaining := 2; remaining >= 0; remaining-- {
		w := send(t, h, forward(""))
		if w.Code != http.StatusOK || w.Body.Len() != 0 || !strings.HasPrefix(field(w, "RateLimit"), fmt.Sprintf(`"per-ip";r=%d`, remaining)) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	w := send(t, h, forward(""))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1200" || field(w, "RateLimit-Policy") == "" || !strings.Contains(w.Body.String(), `"violated-policies":["per-ip"]`) {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	// Any method is accepted; nginx only understands 403.
	r := forward("?deny_status=403&deny_status=429")
	r.Method = "PROPFIND"
	w = send(t, h, r)
	if w.Code != http.StatusForbidden || w.Header().Get("X-Penstock-Status") != "429" || w.Header().Get("Retry-After") != "1200" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := send(t, h, forward("?deny_status=200")); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "401, 403 or 429") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Spaces around a header's value make no other client.
func TestAuthTrimsValues(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for i, host := range []string{"shop.example", "shop.example", "shop.example"} {
		w := send(t, h, forward("", "X-Forwarded-Uri", "", "X-Forwarded-Uri", []string{"/posts/7", "/posts/7 ", "\t/posts/7"}[i], "X-Forwarded-Method", "", "X-Forwarded-Method", []string{"POST", " POST", "POST\t"}[i],
			"X-Forwarded-Host", "", "X-Forwarded-Host", host))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i == 0]; w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	for i, user := range []string{"u1", " u1", "u1\t"} {
		w := send(t, h, forward("", "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/search", "X-User", user))
		if got, want := field(w, "RateLimit"), fmt.Sprintf(`"search-per-user";r=%d`, 99-i); !strings.HasPrefix(got, want) {
			t.Errorf("user %q: %s, want %s", user, got, want)
		}
	}
}

// The request is taken from the proxy's headers, whichever ones it uses.
func TestAuthTakesTheRequestFromHeaders(t *testing.T) {
	for _, headers := range [][]string{
		{"X-Forwarded-Uri", "", "X-Original-URI", "/posts/7?x", "X-Forwarded-Method", "", "X-Original-Method", "POST"},
		{"X-Forwarded-Uri", "", "X-Original-URL", "https://shop.example/posts/7", "X-Forwarded-Method", "", "X-Original-Method", "POST"},
		{"X-Forwarded-Uri", "", "X-Forwarded-Uri", "//posts/./7", "X-Forwarded-Method", "", "X-Forwarded-Method", "POST"},
		{"X-Forwarded-Uri", "", "X-Forwarded-Uri", "/posts/7", "X-Original-URI", "/posts/7", "X-Forwarded-Method", "", "X-Original-Method", "POST", "X-Forwarded-Method", "POST"},
	} {
		h := newHandler(t, setup{now: at(someday), trusted: proxies})
		if w := send(t, h, forward("", headers...)); w.Code != http.StatusOK || !strings.HasPrefix(field(w, "RateLimit"), `"posts-per-host";r=0`) {
			t.Errorf("%q: %d %v %s", headers, w.Code, w.Header(), w.Body)
		}
		if w := send(t, h, forward("", headers...)); w.Code != http.StatusTooManyRequests {
			t.Errorf("%q again: %d", headers, w.Code)
		}
		other := append(headers, "X-Forwarded-Host", "", "X-Forwarded-Host", "other.example")
		if w := send(t, h, forward("", other...)); w.Code != http.StatusOK {
			t.Errorf("%q of another host: %d", headers, w.Code)
		}
	}
}

// A header that a proxy forwards from its client must not decide what the client is counted as.
func TestAuthRefusesForgedHeaders(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for name, headers := range map[string][]string{
		"contradict each other":                                  {"X-Original-URI", "/free"},
		"given 2 times":                                          {"X-Forwarded-Uri", "/free"},
		"X-Original-Method] contradict":                          {"X-Original-Method", "POST"},
		"X-Forwarded-Host is given 2":                            {"X-Forwarded-Host", "other.example"},
		"X-Original-Url] are all missing":                        {"X-Forwarded-Uri", ""},
		"[X-Forwarded-Method X-Original-Method] are all missing": {"X-Forwarded-Method", ""},
		"is neither a path nor a URL":                            {"X-Forwarded-Uri", "", "X-Forwarded-Uri", "free"},
		`invalid method \"GET POST\"`:                            {"X-Forwarded-Method", "", "X-Forwarded-Method", "GET POST"},
		"neither a path nor a URL\\n[X-Forwarded-Method":         {"X-Forwarded-Uri", "", "X-Forwarded-Uri", "mailto:x", "X-Forwarded-Method", ""},
	} {
		if w := send(t, h, forward("", headers...)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), name) {
			t.Errorf("%q: %d %s", headers, w.Code, w.Body)
		}
	}
	w := send(t, h, forward("?deny_status=403", "X-Original-URI", "/free"))
	if w.Code != http.StatusForbidden || w.Header().Get("X-Penstock-Status") != "400" {
		t.Errorf("for nginx: %d %v", w.Code, w.Header())
	}
	// Addresses that a client puts before its own are not trusted.
	for i, forged := range []string{"198.51.100.1, 192.0.2.1", "198.51.100.2, 192.0.2.1", "garbage, 192.0.2.1", "::1,192.0.2.1"} {
		w := send(t, h, forward("", "X-Forwarded-For", "", "X-Forwarded-For", forged))
		if want := map[bool]int{true: 200, false: 429}[i < 3]; w.Code != want {
			t.Errorf("%s: %d, want %d", forged, w.Code, want)
		}
	}
}

func TestAuthAnswersTrustedProxiesOnly(t *testing.T) {
	var log bytes.Buffer
	h := newHandler(t, setup{trusted: proxies, log: &log})
	for peer, want := range map[string]string{
		"203.0.113.9:80":          "add 203.0.113.9/32 or its network to trusted_proxies",
		"[2001:db8::9]:80":        "add 2001:db8::9/128 or its network",
		"[::ffff:203.0.113.9]:80": "add 203.0.113.9/32 or its network",
	} {
		r := forward("")
		r.RemoteAddr = peer
		if w := send(t, h, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", peer, w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "trusted_proxies"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	for _, peer := range []string{"[fd00::9%eth0]:80", "[::ffff:10.1.2.3]:80"} {
		r := forward("")
		r.RemoteAddr = peer
		if w := send(t, h, r); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", peer, w.Code, w.Body)
		}
	}
}

func TestAuthHoldsNothing(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for _, want := range []int{200, 429} {
		if w := send(t, h, forward("", "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/even")); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}

func TestAuthWithoutStore(t *testing.T) {
	h := newHandler(t, setup{store: unavailableStore{}, trusted: proxies})
	if w := send(t, h, forward("")); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(t, h, forward("", "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/closed")); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAuthRefusesWhatIsTooLong(t *testing.T) {
	h := newHandler(t, setup{trusted: proxies})
	if w := send(t, h, forward("", "X-Forwarded-Uri", "", "X-Forwarded-Uri", "/"+strings.Repeat("x", 9000))); w.Code != http.StatusRequestURITooLong {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(t, h, forward("", "X-User", strings.Repeat("x", 9000))); w.Code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// FuzzAuth checks that for any headers of a proxy the document describes the response, and that contradictory headers
// are refused.
func FuzzAuth(f *testing.F) {
	f.Add("/limited/a", "/limited/a", "GET", "host", "192.0.2.1", "deny_status=403")
	f.Add("//limited/%2e%2e/x?%zz", "", "", "[::1]:80", "for=x, unknown", "")
	f.Add("https://h/p#f", "*", "GET /", "\x00", "", "deny_status=%32")
	f.Fuzz(func(t *testing.T, uri, original, method, host, from, query string) {
		h := newHandler(t, setup{now: at(someday), trusted: proxies})
		r := httptest.NewRequest("GET", "/v1/auth", nil)
		r.URL.RawQuery, r.RemoteAddr = query, "10.0.0.5:1"
		r.Header = http.Header{"X-Forwarded-Uri": {uri}, "X-Original-Uri": {original}, "X-Forwarded-Method": {method}, "X-Forwarded-Host": {host}, "X-Forwarded-For": {from}}
		w := send(t, h, r)
		if uri != "" && original != "" && uri != original && w.Code < 400 {
			t.Errorf("%q and %q: %d", uri, original, w.Code)
		}
	})
}
