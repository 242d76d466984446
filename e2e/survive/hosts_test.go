//go:build linux

package survive

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// hostSpellings are ways to write api.example.com, or to make another parser read it.
func hostSpellings() []string {
	const host = "api.example.com"
	all := []string{host, "API.example.com", host + ".", host + ":80", host + ".:80", host + ":"}
	for _, suffix := range []string{
		":80:80", "::80", ":80:", ":", "..", ".:80:80", ":65536", ":-1", ":+80", ":http", ":8 0", ":80.", ":80/", "/", "/x", "\\", "?", "#", "%", "%00", "%2e", "%20", ",", ",b", ";", "&", "=", "+", "!", "$", "'", "(", ")", "*", "~", "@", "@b", ":80@b", "]", "[", "\"", "<", "|", "^", "`", "{", "\u00ad", "。", "\xff",
	} {
		all = append(all, host+suffix)
	}
	for _, prefix := range []string{"user@", "user:secret@", "b,", "b, ", ".", "[", "*.", "%61", "http://", "//", "/", "b\\@", "[::1]", "[::1]:80:"} {
		all = append(all, prefix+host)
	}
	return append(all, "api%2eexample.com", "api.example%2Ecom", "api。example.com", "ａpi.example.com", "api..example.com", "api.example.com:80, api.example.com", "")
}

// However a client writes the host, the request is counted for the host of the rule or refused.
func TestHostSpellings(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {})
	n := start(t, setup{
		rules:  "rules: [{name: host, match: {host: api.example.com}, key: [host], " + counted + "}]",
		config: fmt.Sprintf("gateway: {h2c: true}\ntrusted_proxies: [127.0.0.1]\nupstreams: [{url: %q}]\n", upstream),
	})
	allowed := 0
	for _, host := range hostSpellings() {
		replies := map[string][]reply{
			"HTTP/1.1": converse(t, n.addresses["gateway"], "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"),
			"HTTP/2":   http2Request{header: fields{{":method", "GET"}, {":scheme", "http"}, {":authority", host}, {":path", "/"}}}.send(t, n.addresses["gateway"]),
		}
		if host != "" && !strings.ContainsAny(host, " /") { // then it is the Host header's, or belongs to the path
			replies["absolute form"] = converse(t, n.addresses["gateway"], "GET http://"+host+"/ HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
		}
		if host != "" { // then it is the proxy's
			replies["forward-auth"] = converse(t, n.addresses["http"],
				"GET /v1/auth HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: "+host+"\r\nConnection: close\r\n\r\n")
		}
		for way, all := range replies {
			switch {
			case len(all) != 1 || all[0].status != http.StatusOK && all[0].status != http.StatusBadRequest:
				t.Errorf("%s, host %q: %v", way, host, all)
			case all[0].status == http.StatusOK:
				allowed++
			}
		}
		if counted := n.used("host", map[string]string{"host": "api.example.com"}); counted != allowed {
			t.Errorf("host %q: %d requests allowed, %d counted", host, allowed, counted)
			allowed = counted
		}
	}
	if allowed < 4*6 {
		t.Errorf("only %d requests were allowed: the corpus has lost its point", allowed)
	}
	n.isWell(maxMiB)
}
