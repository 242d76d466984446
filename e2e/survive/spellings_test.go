//go:build linux

package survive

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const loginRules = `
rules:
  - {name: login, match: {method: POST, path: /login}, key: [path], ` + counted + `}
  - {name: exact, match: {method: POST, path: /login}, key: [path], ` + counted + `,
     path_matching: exact}
`

// loginSpellings are ways to write /login that some servers accept. exactly says which of them every
// server accepts.
func loginSpellings() (all []string, exactly map[string]bool) {
	words := []string{"login", "LOGIN", "Login", "lOGIN", "%6cogin", "%6Cogin", "%4cogin", "log%69n", "%6c%6f%67%69%6e", "%4C%4F%47%49%4E"}
	starts := []string{"/", "//", "/./", "/x/../", "/X/%2e%2E/", "/;x/", "/;/", "/x;y=1/../"}
	ends := []string{"", "/", "//", "/.", "/x/..", ";", ";x=1", ";x=1;y=2", ";jsessionid=7/", "/;x", "%3bx=1", "?x=1", "/?x", ";x?y=/z"}
	exactly = map[string]bool{}
	for _, start := range starts {
		for _, word := range words {
			for _, end := range ends {
				path := start + word + end
				all = append(all, path)
				decoded, _ := url.PathUnescape(word)
				exactly[path] = decoded == "login" && !strings.Contains(start, "/;") && (end == "" || end == "?x=1")
			}
		}
	}
	return all, exactly
}

// lenient is how a server reads a path that ignores case, trailing slashes and matrix parameters. It
// knows nothing about Penstock.
func lenient(target string) string {
	path, _, _ := strings.Cut(target, "?")
	var segments []string
	for segment := range strings.SplitSeq(path, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		text, err := url.PathUnescape(segment)
		if err != nil {
			return "invalid"
		}
		text, _, _ = strings.Cut(text, ";")
		switch text {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, strings.ToLower(text))
		}
	}
	return "/" + strings.Join(segments, "/")
}

// However a client writes a path, a rule that ignores what the upstream ignores counts every request
// that the upstream serves under it, with one key.
func TestPathSpellings(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	served := 0
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if lenient(req.RequestURI) == "/login" {
			served++
		} else {
			t.Errorf("the upstream got %s", req.RequestURI)
		}
	})
	n := start(t, setup{rules: loginRules, config: fmt.Sprintf("gateway: {h2c: true}\ntrusted_proxies: [127.0.0.1]\nupstreams: [{url: %q}]\n", upstream)})
	spellings, exactly := loginSpellings()
	var viaGateway, viaAuth []string
	wantExact := 0
	for _, path := range spellings {
		viaGateway = append(viaGateway, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		viaAuth = append(viaAuth, "GET /v1/auth HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Method: POST\r\nX-Original-URI: "+path+"\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
		if exactly[path] {
			wantExact += 2
		}
	}
	allowed := func(text string, r reply) {
		if r.status != http.StatusOK {
			t.Errorf("%q: status %d", text, r.status)
		}
	}
	ask(t, n.addresses["gateway"], viaGateway, allowed)
	ask(t, n.addresses["http"], viaAuth, allowed)
	for _, path := range spellings[:len(spellings)/8] { // each is a connection of its own
		replies := http2Request{header: fields{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}}}.send(t, n.addresses["gateway"])
		if len(replies) != 1 || replies[0].status != http.StatusOK {
			t.Errorf("HTTP/2, %q: %v", path, replies)
		}
		if exactly[path] {
			wantExact++
		}
	}
	if want := served + len(viaAuth); n.used("login", map[string]string{"method": "POST", "path": "/login"}) != want || served < len(spellings) {
		t.Errorf("%d requests were served or allowed, %d counted", want, n.used("login", map[string]string{"method": "POST", "path": "/login"}))
	}
	if got := n.used("exact", map[string]string{"method": "POST", "path": "/login"}); got != wantExact {
		t.Errorf("the rule that ignores nothing counted %d requests, want %d", got, wantExact)
	}
	n.isWell(maxMiB)
}
