package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/urlform"
)

func TestLongestHostThenLongestPath(t *testing.T) {
	s := newTestGateway(t, setting{options: Options{Upstreams: []Upstream{
		{URLs: []string{"http://any"}},
		{Path: "/api", URLs: []string{"http://api"}},
		{Path: "/api/v1/", URLs: []string{"http://v1"}},
		{Host: "*.example.com", URLs: []string{"http://below"}},
		{Host: "shop.example.com", URLs: []string{"http://shop"}},
		{Host: "Shop.Example.Com", Path: "/api", URLs: []string{"http://shop-api"}},
		{Host: "*.shop.example.com", URLs: []string{"http://below-shop"}},
	}}})
	for _, test := range []struct{ host, path, want string }{
		{"", "/", "any"},
		{"other.test", "/apix", "any"},
		{"other.test", "/api", "api"},
		{"other.test", "/api/", "api"},
		{"other.test", "/api/v1", "v1"},
		{"other.test:8080", "/api/v1/x", "v1"},
		{"example.com", "/", "any"},
		{"a.example.com", "/api", "below"},
		{"shop.example.com", "/x", "shop"},
		{"SHOP.example.com.:443", "/api/x", "shop-api"},
		{"a.shop.example.com", "/api/x", "below-shop"},
		{"[::1]:80", "/api", "api"},
	} {
		req := newRequest(t, "GET", "http://x"+test.path, nil)
		name, _ := urlform.Host(test.host) // "" has no host
		if got := s.routeFor(name, req).servers[0].address.Host; got != test.want {
			t.Errorf("%s%s goes to %s, want %s", test.host, test.path, got, test.want)
		}
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := New(Options{
		Limits: Limits{MaxHeaderBytes: -1, MaxQueryParameters: -1, MaxConcurrentStreams: -1},
		Upstreams: []Upstream{
			{Host: "a:80", Path: "/a/../b", URLs: []string{"ftp://x", "http://", "http://a/path", "::", "https://user:secret@a"}},
			{Path: "/c"},
			{URLs: []string{"http://a", "h2c://b"}, RootCAs: "/nowhere.pem", Health: &HealthCheck{Path: "x"}},
			{Path: "/d", URLs: []string{"http://a"}},
			{Path: "/d", URLs: []string{"http://b"}},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"limiter and a reader", "MaxHeaderBytes -1", "MaxQueryParameters -1", "MaxConcurrentStreams -1",
		`upstreams[0]: host "a:80"`, `path "/a/../b": must begin with a slash and be in normal form, as "/b" is`, `"ftp://x": must begin with`, `"http://…": it has no host`,
		`"http://a/path": must be scheme`, `invalid URL "…"`, "upstreams[1]: 0 URLs", "either all are h2c", "/nowhere.pem", `health: path "x"`,
		`upstreams[4]: host "" and path "/d" are those of upstreams[3]`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not told: %s", want)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error tells a password")
	}
	if t.Failed() {
		t.Log(err)
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "0 upstreams") {
		t.Errorf("no upstreams: %v", err)
	}
}

func TestHeaderTooLarge(t *testing.T) {
	serve := func(http.ResponseWriter, *http.Request) {}
	inBubble(t, setting{rules: everyCall}, serve, func(t *testing.T, b *memoryGateway) {
		for size, want := range map[int]int{15 << 10: 200, 32 << 10: 431} {
			answers := b.sendRaw("GET / HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("a", size) + "\r\n\r\n")
			if answers[want] != 1 || len(answers) != 1 {
				t.Errorf("a header of %d bytes: answers %v, want %d", size, answers, want)
			}
		}
		if n := len(b.counted()); n != 1 {
			t.Errorf("%d counted", n)
		}
	})
}
