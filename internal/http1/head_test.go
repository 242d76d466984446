package http1

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/racetest"
)

// commonHeads are those of common responses, to GET.
var commonHeads = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 404\r\ncontent-length:\t007 \r\n\r\n",
	"HTTP/1.1 599 a b\r\nContent-Length: 999999999999999999\r\n\r\n",
	"HTTP/1.1 999 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\n",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
	"HTTP/1.1 302 Found\r\nLocation: /a\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: text/event\r\nContent-Length: 1\r\nX!: \r\n\r\n",
}

// unusualHeads are left to net/http.
var unusualHeads = []string{
	"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 +20 OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 20: OK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 199 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 200 O\x00K\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 O\x7fK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 O\nK\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5:\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTrailer: A\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTe: trailers\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nUpgrade: websocket\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nPragma: no-cache\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nProxy-Connection: close\r\n\r\n",
	"HTTP/1.1 407 A\r\nContent-Length: 5\r\nProxy-Authenticate: Basic\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nProxy-Authorization: a\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-A\r\nX-A: b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close, X-A\r\nX-A: b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/event-stream\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX : b\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX\r\n\r\n",
	"HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: a\nb: c\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nX: \xff\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n",
	"ICY 200 OK\r\nContent-Length: 5\r\n\r\n",
	"\r\n\r\n",
	"",
	"HTTP/1.1 200 OK",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
}

func TestHead(t *testing.T) {
	var head Head // its memory is reused
	for _, text := range commonHeads {
		if !head.parse(text, false) {
			t.Errorf("%q: not accepted", text)
		}
		compareHeads(t, &head, text, "GET")
		compareHeads(t, &head, text, "HEAD")
	}
	for _, text := range unusualHeads {
		if head.parse(text, false) {
			t.Errorf("%q: accepted", text)
		}
	}
	if head.parse("HTTP/1.1 200 OK\r\n\r\n", true) { // the ReverseProxy flushes it
		t.Error("a response to HEAD without a length: accepted")
	}
}

// compareHeads fails if parse accepts a head that net/http rejects or understands differently.
func compareHeads(t *testing.T, head *Head, text, method string) (accepted bool) {
	n := headLength([]byte(text))
	if n == 0 || !head.parse(text[:n], method == http.MethodHead) {
		return false
	}
	from := bufio.NewReader(strings.NewReader(text))
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %q: net/http refuses it: %v", method, text, err)
	}
	if res.StatusCode != head.Status || res.Close != head.isLast || res.TransferEncoding != nil || res.Trailer != nil {
		t.Fatalf("%s %q:\ngot  %+v\nwant %+v", method, text, head, res)
	}
	header := http.Header{}
	for _, l := range head.Lines {
		header[l.Name] = append(header[l.Name], l.Value)
	}
	for _, name := range []string{"Connection", "Keep-Alive"} {
		res.Header.Del(name)
	}
	if !reflect.DeepEqual(header, res.Header) {
		t.Fatalf("%s %q:\ngot  %q\nwant %q", method, text, header, res.Header)
	}
	rest := text[n:]
	body, err := io.ReadAll(res.Body)
	if want := rest[:min(int64(len(rest)), head.Length)]; string(body) != want || (err == nil) != (int64(len(want)) == head.Length) {
		t.Fatalf("%s %q: net/http reads the body %q, %v; its length is %d", method, text, body, err, head.Length)
	}
	if left, _ := io.ReadAll(from); string(left) != rest[len(body):] {
		t.Fatalf("%s %q: net/http leaves %q", method, text, left)
	}
	return true
}

func TestHeadAgreesWithNetHTTP(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	pieces := append([]string{"Content-Length: 3\r\n", "Keep-Alive: a\r\n", "0", "1", "HTTP/1.1 100 Continue\r\n\r\n", "204", "304", "Trailer: A\r\n", "Pragma: no-cache\r\n"}, alphabet...)
	random := rand.New(rand.NewPCG(5, 6))
	texts := append(append([]string(nil), commonHeads...), unusualHeads...)
	accepted := 0
	var head Head
	for range 300_000 {
		text := texts[random.IntN(len(texts))] + "hello"
		for range 1 + random.IntN(3) {
			i := random.IntN(len(text) + 1)
			j := min(i+random.IntN(3), len(text))
			text = text[:i] + pieces[random.IntN(len(pieces))] + text[j:]
		}
		if compareHeads(t, &head, text, []string{"GET", "HEAD"}[random.IntN(2)]) {
			accepted++
		}
	}
	if accepted < 5_000 {
		t.Errorf("only %d heads were accepted: the test has lost its point", accepted)
	}
}

func FuzzHead(f *testing.F) {
	for _, text := range append(commonHeads, unusualHeads...) {
		f.Add(text+"hello", true)
		f.Add(text+"hello", false)
	}
	f.Fuzz(func(t *testing.T, text string, isHead bool) {
		method := http.MethodGet
		if isHead {
			method = http.MethodHead
		}
		compareHeads(t, new(Head), text, method)
	})
}
