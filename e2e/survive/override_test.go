//go:build linux

package survive

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Headers by which a client could make an upstream take a request for another one than was limited
// are not forwarded, however they are written, and neither is TRACE.
func TestOverridesAreNotForwarded(t *testing.T) {
	t.Parallel()
	names := []string{
		"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-HTTP-Host-Override", "Proxy", "X-Original-Host", "X-Original-URL", "X-Original-Method", "X-Rewrite-URL", "X-Host",
		"WL-Proxy-Client-IP", "Proxy-Client-IP", "X-Forwarded-Method", "X-Forwarded-Uri",
	}
	var mu sync.Mutex
	requests := 0
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests++
		if req.Method != http.MethodPost {
			t.Errorf("the upstream got %s", req.Method)
		}
		for name, lines := range req.Header {
			if strings.Contains(strings.Join(lines, ","), "forged") {
				t.Errorf("the upstream got %s: %s", name, lines)
			}
		}
	})
	n := start(t, setup{config: fmt.Sprintf("gateway: {h2c: true}\nupstreams: [{url: %q}]\n", upstream)})
	var texts []string
	for _, name := range names {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "-", "."), strings.Replace(name, "-", "_", 1)} {
			for _, more := range []string{"", "Connection: keep-alive, " + spelt + "\r\n", spelt + ": GET\r\n"} {
				texts = append(texts, "POST / HTTP/1.1\r\nHost: a\r\n"+more+spelt+": forged\r\nContent-Length: 0\r\n\r\n")
			}
		}
	}
	ask(t, n.addresses["gateway"], texts, func(text string, r reply) {
		if r.status != http.StatusOK {
			t.Errorf("%q: status %d", text, r.status)
		}
	})
	for _, name := range names {
		header := fields{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}, {strings.ToLower(name), "forged"}}
		if replies := (http2Request{header: header}).send(t, n.addresses["gateway"]); len(replies) != 1 || replies[0].status != http.StatusOK {
			t.Errorf("HTTP/2, %s: %v", name, replies)
		}
	}
	if want := len(texts) + len(names); requests != want {
		t.Errorf("the upstream got %d requests of %d", requests, want)
	}
	for _, method := range []string{"TRACE", "TRACK", "CONNECT"} {
		header := fields{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}}
		if method == "CONNECT" {
			header = fields{{":method", method}, {":authority", "a"}}
		}
		for way, replies := range map[string][]reply{
			"HTTP/1.1": converse(t, n.addresses["gateway"], method+" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
			"HTTP/2":   http2Request{header: header}.send(t, n.addresses["gateway"]),
		} {
			if len(replies) != 1 || replies[0].status != http.StatusNotImplemented {
				t.Errorf("%s over %s: %v", method, way, replies)
			}
		}
	}
	n.isWell(maxMiB)
}
