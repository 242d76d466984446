//go:build linux

package survive

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// An oversizedRequest, and how it may be refused.
type oversizedRequest struct {
	name, text string
	statuses   []int
}

// A request that is too large is refused with a matching status, before it is held.
func TestOversized(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) })
	n := start(t, setup{config: fmt.Sprintf("upstreams: [{url: %q}]\n", upstream)})
	const much = 64 << 10
	long := strings.Repeat("x", much)
	head := func(target, headers string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n"
	}
	post := func(headers, body string) string {
		return "POST / HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", much, long)
	tests := []oversizedRequest{
		{"header", head("/", "X: "+long+"\r\n"), []int{431}},
		{"name", head("/", long+": x\r\n"), []int{431}},
		{"headers", head("/", strings.Repeat("X: y\r\n", much/6)), []int{431}},
		{"many names", head("/", manyNames(5000)), []int{431}},
		{"cookies", head("/", "Cookie: "+strings.Repeat("a=b; ", much/5)+"\r\n"), []int{431}},
		{"authorization", head("/", "Authorization: Bearer "+long+"\r\n"), []int{431}},
		{"host", "GET / HTTP/1.1\r\nHost: " + long + "\r\n\r\n", []int{431}},
		{"method", long + " / HTTP/1.1\r\nHost: a\r\n\r\n", []int{400, 431}},
		{"path", head("/"+long, ""), []int{414, 431}},
		{"path of 10 KiB", head("/"+long[:10<<10], ""), []int{414}},
		{"segments", head("/"+strings.Repeat("a/", much/2), ""), []int{414, 431}},
		{"dots", head("/"+strings.Repeat("../", much/3), ""), []int{414, 431}},
		{"query", head("/?a="+long, ""), []int{414, 431}},
		{"parameters", head("/?"+strings.Repeat("a&", 2000), ""), []int{400}},
		{"never ending line", strings.Repeat("x", 4<<20), []int{431}},
		{"length", post("Content-Length: 2000000\r\n", strings.Repeat(long, 31)), []int{413}},
		{"length of ages", post("Content-Length: 9223372036854775807\r\n", long), []int{413}},
		{"length with expectation", post("Content-Length: 2000000\r\nExpect: 100-continue\r\n", ""), []int{413}},
		{"chunks", post("Transfer-Encoding: chunked\r\n", strings.Repeat(chunk, 32)+"0\r\n\r\n"), []int{413}},
		{"chunk", post("Transfer-Encoding: chunked\r\n", "7fffffffffffffff\r\n"+strings.Repeat(long, 32)), []int{413}},
		{"extension", post("Transfer-Encoding: chunked\r\n", "5;"+long+"\r\nhello\r\n0\r\n\r\n"), []int{400}},
		{"trailer", post("Transfer-Encoding: chunked\r\n", "0\r\n"+strings.Repeat("X: y\r\n", 1<<20)+"\r\n"), []int{200, 400, 413, 431}},
	}
	inParallel(slices.Repeat(tests, 10*longer), 32, n.isRefused)
	if status := n.status("gateway", "/"); status != 200 {
		t.Errorf("afterwards, status %d", status)
	}
	n.isWell(maxMiB)
}

func manyNames(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "X-%d: y\r\n", i)
	}
	return b.String()
}

// isRefused sends a request that is too large. The answer may be cut off: it ends with the connection.
func (n *node) isRefused(o oversizedRequest) {
	l := dial(n.t, n.addresses["gateway"])
	if l == nil {
		return
	}
	defer l.Close()
	if r, err := l.ask(o.text); !slices.Contains(o.statuses, r.status) {
		n.t.Errorf("%s: status %d, %v, want one of %v: %s", o.name, r.status, err, o.statuses, r.body)
	}
}
