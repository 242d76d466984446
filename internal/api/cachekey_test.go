package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// Denials can be cached if the proxy's key holds the values of all attributes that the request was denied by.
func TestAuthCacheKey(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for range 3 {
		w := send(t, h, forward("?cache_by=ip,path", "X-Penstock-Cache-Key", "192.0.2.1|/limited/a"))
		if w.Code != http.StatusOK || w.Header().Get("X-Accel-Expires") != "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
	}
	for _, test := range []struct {
		query, key, expires string
		more                []string
	}{
		{"?cache_by=ip,path", "192.0.2.1|/limited/a", "4", nil},
		{"?cache_by=path,ip", "/limited/a|192.0.2.1", "4", nil},
		{"?cache_by=path,ip", "/limited/a|::ffff:192.0.2.1", "4", nil},
		{"?cache_by=ip,path,user&deny_status=403", "192.0.2.1|/limited/a|", "4", nil},
		{"?cache_by=ip,path,user", "192.0.2.1|/limited/a|u1", "4", []string{"X-User", "u1"}},
		{"?cache_by=ip,path,user", "192.0.2.1|/limited/a|u2", "", []string{"X-User", "u1"}},
		{"?cache_by=ip,path,user", "192.0.2.1|/limited/a|u1|x", "", []string{"X-User", "u1|x"}},
		{"?cache_by=ip,path", "192.0.2.2|/limited/a", "", nil},
		{"?cache_by=ip,path", "192.0.2.1|/limited/b", "", nil},
		{"?cache_by=ip,path", "192.0.2.1|", "", nil},
		{"?cache_by=ip,path", "192.0.2.1", "", nil},
		{"?cache_by=ip,path", "", "", nil},
		{"?cache_by=ip,path", "192.0.2.1|/limited/a", "", []string{"X-Penstock-Cache-Key", "192.0.2.2|/limited/a"}},
		{"?cache_by=ip", "192.0.2.1", "", nil},
		{"", "192.0.2.1|/limited/a", "", nil},
	} {
		w := send(t, h, forward(test.query, append([]string{"X-Penstock-Cache-Key", test.key}, test.more...)...))
		if got := w.Header().Get("X-Accel-Expires"); w.Code == http.StatusOK || got != test.expires || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %q: %d, expires %q, want %q", test.query, test.key, w.Code, got, test.expires)
		}
	}
}

// A client with an IPv6 address is counted by its network, and cached by its address.
func TestAuthCacheKeyIPv6(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for i := range 4 {
		w := send(t, h, forward("?cache_by=ip,path", "X-Forwarded-For", "", "X-Forwarded-For", "2001:db8::1:2", "X-Penstock-Cache-Key", "2001:db8::1:2|/limited/a"))
		if want := map[bool]string{true: "4"}[i == 3]; w.Header().Get("X-Accel-Expires") != want {
			t.Errorf("request %d: %d %v", i, w.Code, w.Header())
		}
	}
}

// A denial is never cached beyond its end, also if the proxy counts the last second in full.
func TestAuthCacheEnds(t *testing.T) {
	now := someday
	h := newHandler(t, setup{now: func() penstock.Instant { return penstock.InstantOf(now) }, trusted: proxies})
	for range 3 {
		send(t, h, forward(""))
	}
	for _, test := range []struct {
		left time.Duration
		want string
	}{
		{20 * time.Minute, "4"}, {6 * time.Second, "4"}, {5100 * time.Millisecond, "4"}, {5 * time.Second, "3"}, {3 * time.Second, "1"},
		{2100 * time.Millisecond, "1"}, {2 * time.Second, ""}, {time.Second, ""}, {time.Millisecond, ""},
	} {
		now = someday.Add(20*time.Minute - test.left)
		w := send(t, h, forward("?cache_by=ip,path", "X-Penstock-Cache-Key", "192.0.2.1|/limited/a"))
		if got := w.Header().Get("X-Accel-Expires"); w.Code != http.StatusTooManyRequests || got != test.want {
			t.Errorf("%v before the end: %d, expires %q, want %q", test.left, w.Code, got, test.want)
		}
	}
}

func TestAuthCacheByIsInvalid(t *testing.T) {
	h := newHandler(t, setup{now: at(someday), trusted: proxies})
	for query, want := range map[string]string{
		"?cache_by=ip,":   "lists attributes",
		"?cache_by=ip,ip": "twice",
		"?cache_by=" + strings.Repeat("a,", 16) + "b": "at most 16",
	} {
		if w := send(t, h, forward(query)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
