package http1

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/internal/racetest"
)

// common are heads that parse accepts.
var common = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /a/b.c?x=1&y=%20;z HTTP/1.1\r\nhost: example.com:8080\r\nUser-Agent: curl/8\r\nAccept: */*\r\n\r\n",
	"HEAD /%7Ea/%2e%2E//b?? HTTP/1.1\r\nHOST: [::1]:80\r\nx-a: 1\r\nX-A:\t2 \r\nX-B:\r\n\r\n",
	"DELETE /? HTTP/1.1\r\nHost: a_b\r\nConnection: Keep-Alive\r\nCookie: a=b\r\ncookie: c=d\r\n\r\n",
	"OPTIONS //a/;b=c/@:!$&'()*+,= HTTP/1.1\r\nHost: a\r\nAuthorization: Basic x\r\nCache-Control: no-cache\r\n!#$%&'*+-.^_`|~09: x\r\n\r\n",
}

// unusual are heads that parse leaves to net/http.
var unusual = []string{
	"",
	"\r\n\r\n",
	"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: \r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
	"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n\r\n",
	"get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\ncontent-length: 5\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x-a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTrailer: x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
	"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: a\r\n", maxFields) + "\r\n",
}

// reused is a connection whose requests use the same memory, one after the other.
var reused = conn{server: &Server{context: context.Background()}}

// parse parses a head. The request is valid until the next call.
func parse(head string) (*request, bool) {
	r := newRequest(&reused)
	ok := r.parse(head)
	reused.memory = r.memory
	return r, ok
}

func TestParse(t *testing.T) {
	for _, text := range common {
		if _, ok := parse(text); !ok {
			t.Errorf("%q: not accepted", text)
		}
		compare(t, text)
	}
	for _, text := range unusual {
		if _, ok := parse(text); ok {
			t.Errorf("%q: accepted", text)
		}
	}
}

// compare fails if parse accepts a head that net/http rejects or takes for another request.
func compare(t *testing.T, text string) (accepted bool) {
	n := headLength([]byte(text))
	if n == 0 {
		return false
	}
	r, ok := parse(text[:n])
	if !ok {
		return false
	}
	got := &r.Request
	from := bufio.NewReader(strings.NewReader(text))
	want, err := http.ReadRequest(from)
	if err != nil {
		t.Fatalf("%q: net/http refuses it: %v", text, err)
	}
	if rest, _ := io.ReadAll(from); string(rest) != text[n:] {
		t.Fatalf("%q: the request ends at %d; net/http leaves %q", text, n, rest)
	}
	if !httpguts.ValidHostHeader(want.Host) || want.Close || want.ContentLength != 0 || want.TransferEncoding != nil || want.Trailer != nil || want.Body != http.NoBody {
		t.Fatalf("%q: it is not common for net/http: %+v", text, want)
	}
	for name, lines := range want.Header {
		for _, line := range lines {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(line) {
				t.Fatalf("%q: net/http refuses the header %q: %q", text, name, line)
			}
		}
	}
	if want = want.WithContext(got.Context()); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\ngot  %+v\nwant %+v", text, got, want)
	}
	return true
}

// alphabet are pieces that change the meaning of a head.
var alphabet = []string{
	"\r", "\n", "\r\n", " ", "\t", ":", "/", "?", "#", "%", "%2F", "%00", ";", "\x00", "\x7f", "\x80", "a", "A", "_", "-", ",", "\"",
	"Host: b\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n", "X: y\r\n", "HTTP/1.1", "HTTP/1.0", "GET ", "//", "..", "@", "[", "]",
}

func TestParseAgreesWithNetHTTP(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	texts := append(append([]string(nil), common...), unusual...)
	for range 300_000 {
		text := texts[random.IntN(len(texts))]
		for range 1 + random.IntN(3) {
			i := random.IntN(len(text) + 1)
			j := min(i+random.IntN(3), len(text))
			text = text[:i] + alphabet[random.IntN(len(alphabet))] + text[j:]
		}
		if compare(t, text) {
			accepted++
		}
	}
	if accepted < 5_000 {
		t.Errorf("only %d heads were accepted: the test has lost its point", accepted)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range append(common, unusual...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}
