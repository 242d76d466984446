package gateway

import (
	"fmt"
	"net/http"
	"testing"
)

const keyRules = `
attributes: {key: {header: X-Api-Key}, session: {cookie: sid}}
rules: [{name: all, key: [key?, session?], limits: [1000000/1h]}]`

// Spaces around a value are no part of it. A client must not get a fresh limit by adding them, so the gateway counts
// the value that the server reads, or refuses the request.
func TestSpacesAroundValuesOverHTTP1(t *testing.T) {
	served := ""
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) { served = req.Header.Get("X-Api-Key") })
	s := newTestGateway(t, setting{rules: keyRules, options: Options{Upstreams: upstreams(server)}})
	for _, test := range []struct {
		lines string
		want  string // what is counted and served; "": 400
	}{
		{"X-Api-Key: k1", "k1"},
		{"X-Api-Key:k1", "k1"},
		{"X-Api-Key: \t k1 \t", "k1"},
		{"X-Api-Key:\r\n k1", "k1"},
		{"X-Api-Key: \r\n \r\n\tk1", "k1"},
		{"X-Api-Key: k1\r\n x", "k1 x"}, // a continuation line is replaced with one space, as RFC 9112 allows
		{"X-Api-Key: k1\r\n\t x", "k1 x"},

		{"X-Api-Key: k1\r\n ", ""},
		{"X-Api-Key: k1\r\n\t", ""},
		{"X-Api-Key: k1\r\n \r\n \r\n ", ""},
		{"X-Api-Key: k1\n \r\n\t\t", ""},
		{"X-Other: o\r\n ", ""},
		{"Authorization: Bearer k1\r\n ", ""},
		{"Cookie: sid=1\r\n ", ""},
	} {
		served = ""
		code, known := s.ask(t, "GET / HTTP/1.1\r\nHost: a\r\n"+test.lines+"\r\n\r\n")
		calls := s.counted()
		if test.want == "" {
			if !known || code != http.StatusBadRequest || len(calls) != 0 {
				t.Errorf("%q: status %d, counted %d times", test.lines, code, len(calls))
			}
			continue
		}
		if code != http.StatusOK || len(calls) != 1 || attributeOf(&calls[0], "key") != test.want || served != test.want {
			t.Errorf("%q: status %d, counted %v, served as %q", test.lines, code, calls, served)
		}
	}
}

func TestSpacesAroundValuesOverHTTP2(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	s := start(t, setting{rules: keyRules, options: Options{Upstreams: upstreams(server), H2C: true}})
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(h2c.CloseIdleConnections)
	for _, test := range []struct {
		value string
		want  int
	}{
		{"k1", http.StatusOK}, {"k 1", http.StatusOK},
		{"k1 ", http.StatusBadRequest}, {" k1", http.StatusBadRequest}, {"k1\t", http.StatusBadRequest}, {"\tk1", http.StatusBadRequest},
	} {
		for _, name := range []string{"X-Api-Key", "X-Other", "Authorization", "Cookie"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header[name] = []string{test.value}
			res, err := h2c.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if counted := len(s.counted()); res.StatusCode != test.want || fmt.Sprint(counted) != map[int]string{200: "1", 400: "0"}[test.want] {
				t.Errorf("%s: %q: status %d, counted %d times", name, test.value, res.StatusCode, counted)
			}
		}
	}
}
