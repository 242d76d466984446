package webguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-io/penstock/internal/webguard"
)

// serve reports whether a request is refused, and why.
func serve(o webguard.Options, r *http.Request) (refused bool, reason string) {
	passed := false
	o.Refuse = func(w http.ResponseWriter, why string) { refused, reason = true, why }
	webguard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true }), o).ServeHTTP(httptest.NewRecorder(), r)
	if passed == refused {
		panic("a request must be either passed on or refused")
	}
	return refused, reason
}

func TestHosts(t *testing.T) {
	named := []string{"penstock.example.com", "*.corp.example"}
	for _, test := range []struct {
		host                                             string
		loopback, loopbackNamed, anywhere, anywhereNamed bool // accepted
	}{
		{"", true, true, true, true}, // not a browser
		{"localhost:8090", true, true, true, true},
		{"127.0.0.1:8090", true, true, true, true},
		{"[::1]", true, true, true, true},
		{"[::ffff:127.0.0.1]:1", true, true, true, true},
		{"penstock", true, true, true, true},
		{"penstock.localhost", true, true, true, true},
		{"10.0.0.5:8090", false, false, true, true},
		{"[2001:db8::1]", false, false, true, true},
		{"penstock.example.com", false, true, true, true},
		{"PENSTOCK.example.com.:8090", false, true, true, true},
		{"a.corp.example", false, true, true, true},
		{"corp.example", false, false, true, false},
		{"evil-corp.example", false, false, true, false},
		{"evil.example", false, false, true, false},
		{"localhost.evil.example", false, false, true, false},
		{"127.0.0.1.evil.example", false, false, true, false},
		{"2130706433", false, false, true, false},
		{"0x7f.1", false, false, true, false},
		{"127.0.0.1:80:80", false, false, true, false},
		{"localhost@evil.example", false, false, true, false},
	} {
		for name, one := range map[string]struct {
			hosts webguard.Hosts
			want  bool
		}{
			"loopback": {webguard.Hosts{Loopback: true}, test.loopback}, "loopback, named": {webguard.Hosts{Loopback: true, Names: named}, test.loopbackNamed},
			"anywhere": {webguard.Hosts{}, test.anywhere}, "anywhere, named": {webguard.Hosts{Names: named}, test.anywhereNamed},
		} {
			for _, method := range []string{"GET", "POST"} {
				r := httptest.NewRequest(method, "/v1/check", nil)
				r.Host = test.host
				if refused, reason := serve(webguard.Options{Hosts: one.hosts}, r); refused == one.want {
					t.Errorf("%s: %s %q: refused %v %s", name, method, test.host, refused, reason)
				}
				r.URL.Path = "/healthz"
				if refused, _ := serve(webguard.Options{Hosts: one.hosts, Open: []string{"/healthz"}}, r); refused {
					t.Errorf("%s: a health check for %q is refused", name, test.host)
				}
			}
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, test := range []struct {
		method, origin, site string
		api, pages           bool // accepted
	}{
		{"POST", "", "", true, true},
		{"POST", "", "none", true, true},
		{"POST", "https://evil.example", "cross-site", false, false},
		{"POST", "https://evil.example", "", false, false},
		{"POST", "null", "", false, false},
		{"POST", "", "cross-site", false, false},
		{"POST", "", "same-site", false, false},
		{"POST", "http://penstock.example", "same-origin", false, true},
		{"POST", "http://penstock.example", "", false, true}, // DNS rebinding looks like this
		{"DELETE", "http://penstock.example", "", false, true},
		{"PUT", "https://evil.example", "", false, false},
		{"GET", "https://evil.example", "cross-site", true, true}, // changes nothing, and its response is not shown
	} {
		r := httptest.NewRequest(test.method, "http://penstock.example/v1/check", nil)
		for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		for _, pages := range []bool{false, true} {
			want := test.api
			if pages {
				want = test.pages
			}
			if refused, reason := serve(webguard.Options{Pages: pages}, r); refused == want {
				t.Errorf("pages %v: %+v: refused %v %s", pages, test, refused, reason)
			}
		}
		if refused, _ := serve(webguard.Options{Relayed: []string{"/v1/check"}}, r); refused {
			t.Errorf("relayed: %+v is refused", test)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"penstock": true, "a.example": true, "*.a.example": true, "10.0.0.1": true,
		"": false, "*": false, "*.": false, "*a.example": false, "a.*.example": false, "A.example": false, "a.example:80": false, "http://a.example": false, "a.example/": false,
	} {
		if err := webguard.CheckName(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestJSON(t *testing.T) {
	for given, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=UTF-8": true,
		"": false, "text/plain": false, "text/plain; a=application/json": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=application/json": false,
		"application/json, text/plain": false, "application/json; charset=latin1": false, "application/jsonp": false, "text/json": false,
	} {
		if err := webguard.CheckJSON(http.Header{"Content-Type": {given}}); (err == nil) != want {
			t.Errorf("%q: %v", given, err)
		}
	}
	if err := webguard.CheckJSON(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}); err == nil {
		t.Error("gzip is accepted")
	}
}
