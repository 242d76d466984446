package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock/internal/http1"
)

// All tests of this package pass without the fast path, too.
func TestNetHTTPOnly(t *testing.T) {
	if os.Getenv(netHTTPOnly) != "" {
		t.Skip("this is the run without the fast path")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.skip=^(TestNetHTTPOnly|Fuzz|Example)", "-test.timeout=10m",
		fmt.Sprint("-test.short=", testing.Short()))
	cmd.Env = append(os.Environ(), netHTTPOnly+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// varying is what differs between two equal responses: times, IDs and ports.
var varying = regexp.MustCompile(`Date: .*|X-Request-Id: .*|[0-9]{4,}`)

// Clients cannot tell by a response which path served it, and the limiter sees the same requests.
func TestPathsAgree(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/stream":
			rw.Header().Set("Trailer", "After")
			io.WriteString(rw, "a")
			rw.(http.Flusher).Flush()
			rw.Header().Set("After", "b")
		case "/none":
			rw.WriteHeader(http.StatusNoContent)
		case "/hints":
			rw.Header().Set("Link", "</a>")
			rw.WriteHeader(http.StatusEarlyHints)
		case "/moved":
			http.Redirect(rw, req, "/elsewhere", http.StatusFound)
		default:
			for _, name := range []string{"Accept", "X-A", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Cookie"} {
				fmt.Fprintf(rw, "%s %q\n", name, req.Header[name])
			}
		}
	})
	const rules = `
attributes: {client: {header: X-Client}}
rules:
  - {name: never, match: {path: /never}, key: [], limits: [0/1h]}
  - {name: per-client, match: {path: /limited}, key: [client], limits: [2/1h], penalty: {after: 3, within: 1h, bans: [1h]}}
`
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /x?y=z HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\nCookie: a=b\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
		"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /hints HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /moved HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a%2Fb HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a?b;c HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /../%2e HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a:b:c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
		"GET /never HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /never HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n",
		"GET /limited HTTP/1.1\r\nHost: a\r\nX-Client: 1\r\nX-Client: 2\r\n\r\n",
	}
	for range 7 { // allowed, denied, banned
		requests = append(requests, "GET /limited HTTP/1.1\r\nHost: a\r\nX-Client: 1\r\n\r\n", "HEAD /limited HTTP/1.1\r\nHost: a\r\nX-Client: 2\r\nAccept: text/html\r\n\r\n")
	}
	all := map[bool]string{}
	for _, netHTTP := range []bool{false, true} {
		var fast atomic.Int64
		around := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				if _, ok := req.Context().Value(http.ServerContextKey).(*http1.Server); ok {
					fast.Add(1)
				}
				next.ServeHTTP(rw, req)
			})
		}
		s := start(t, setting{rules: rules, netHTTP: netHTTP, options: Options{Upstreams: upstreams(server), Around: around}})
		conn, from := s.dialRaw()
		var got strings.Builder
		for _, text := range requests {
			io.WriteString(conn, text)
			fmt.Fprintf(&got, "%q: %s\n", text, varying.ReplaceAllString(readResponse(t, from, text[:strings.IndexByte(text, ' ')]), "…"))
		}
		for _, c := range s.counted() {
			fmt.Fprintf(&got, "%v\n", c.Attributes)
		}
		all[netHTTP] = got.String()
		if n := fast.Load(); s.fast && n != int64(len(requests)) || !s.fast && n != 0 {
			t.Errorf("%d of %d requests were served by the fast path; it is on: %t", n, len(requests), s.fast)
		}
	}
	if all[false] != all[true] {
		t.Errorf("fast path:\n%s\nnet/http:\n%s", all[false], all[true])
	}
	for _, want := range []string{"HTTP/1.1 429 Too Many Requests", "HTTP/1.1 400 Bad Request", "Banned temporarily", "HTTP/1.1 103 Early Hints", "After: b"} {
		if !strings.Contains(all[false], want) {
			t.Errorf("there is no %q in\n%s", want, all[false])
		}
	}
}

// readResponse returns the responses to a request, with their heads as sent, and the last one's body and trailers.
func readResponse(t *testing.T, from *bufio.Reader, method string) string {
	t.Helper()
	var all, head strings.Builder
	for all.Len() == 0 || strings.HasPrefix(head.String(), "HTTP/1.1 1") {
		head.Reset()
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = from.ReadString('\n'); err != nil {
				t.Fatalf("after %q: %v", all.String(), err)
			}
			head.WriteString(line)
		}
		all.WriteString(head.String())
	}
	res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()), from)), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	all.Write(body)
	for name, lines := range res.Trailer {
		fmt.Fprintf(&all, "%s: %s\n", name, lines[0])
	}
	return all.String()
}
