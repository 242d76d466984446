//go:build linux

package survive

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

const forgedRules = `
rules:
  - {name: tight, match: {path: /tight}, key: [ip], limits: [{rate: 10/year, algorithm: fixed_window}]}
  - {name: wide, match: {path: /wide}, key: [ip], ` + counted + `}
`

// identities are headers by which one proxy or another says where a request comes from.
var identities = []string{
	"X-Forwarded-For", "Forwarded", "Forwarded-For", "X-Forwarded", "Client-IP", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP", "X-Client-IP",
	"X-Cluster-Client-IP", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Remote-IP", "X-Remote-Addr", "X-Originating-IP",
}

// victims are addresses whose counters an attacker would like to use up, or hide behind.
var victims = []string{"198.51.100.7", "2001:db8:7::7"}

// forgeries returns header lines that claim a request is a victim's, except those that proxies add.
func forgeries() (headers []string) {
	spellings := []func(string) string{
		func(name string) string { return name + ":" },
		func(name string) string { return strings.ToLower(name) + ":" },
		func(name string) string { return strings.ToUpper(name) + ":" },
		func(name string) string { return strings.ReplaceAll(name, "-", "_") + ":" },
		func(name string) string { return strings.Replace(name, "-", "_", 1) + ":" },
		func(name string) string { return strings.ReplaceAll(name, "-", ".") + ":" },
		func(name string) string { return "Connection: " + name + "\r\n" + name + ":" },
		func(name string) string { return name + ": 127.0.0.1\r\n" + name + ":" },
		func(name string) string { return "X: y\r\n " + name + ": z\r\n" + name + ":" },
	}
	values := []string{
		"198.51.100.7", "198.51.100.7:80", "\t198.51.100.7\t", "198.51.100.7, 127.0.0.1", "127.0.0.1, 198.51.100.7", "::ffff:198.51.100.7", "::ffff:c633:6407", "2001:db8:7::7", "[2001:db8:7::7]:80", "2001:db8:7::7%lo",
		"for=198.51.100.7", `for="[2001:db8:7::7]:80"`, "for=127.0.0.1, for=198.51.100.7;proto=https", "For=\"198.51.100.7\"", ",198.51.100.7", "198.51.100.7,,,", `"198.51.100.7"`, "198.51.100.7 127.0.0.1", "unknown, 198.51.100.7", "127.0.0.1\r\n\t, 198.51.100.7",
	}
	for _, name := range identities {
		for _, spell := range spellings {
			for _, value := range values {
				headers = append(headers, spell(name)+" "+value+"\r\n")
			}
		}
	}
	return headers
}

// Whatever address a client claims, it is counted by its peer address: it never gets a fresh counter,
// never uses up another client's, and the upstream never sees the claim.
func TestForgedAddresses(t *testing.T) {
	t.Parallel()
	var told witnessOfHeaders
	n := start(t, setup{rules: forgedRules, config: fmt.Sprintf("upstreams: [{url: %q}]\n", newUpstream(t, told.serve))})
	headers := forgeries()
	if len(headers) < 2000 {
		t.Errorf("only %d forgeries", len(headers))
	}
	n.sendForged("/tight", headers[:len(headers)/4])
	n.sendForged("/wide", headers)
	if passed := told.count("/tight"); passed != 10 {
		t.Errorf("%d of the forged requests passed a limit of 10", passed)
	}
	if passed, counted := told.count("/wide"), n.used("wide", map[string]string{"ip": "127.0.0.1", "path": "/wide"}); passed != len(headers) || counted != passed {
		t.Errorf("of %d, %d passed and %d were counted", len(headers), passed, counted)
	}
	n.sparesVictims("tight", "wide")
	for _, wrong := range told.wrong {
		t.Error(wrong)
	}
	n.isWell(maxMiB)
}

// Behind a trusted proxy, the client is the one that the proxy has seen, whatever is to the left of it and in
// other headers.
func TestForgedAddressesBehindProxy(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{rules: forgedRules, config: fmt.Sprintf("trusted_proxies: [127.0.0.0/8]\nupstreams: [{url: %q}]\n", upstream)})
	headers := forgeries()
	for i := range headers {
		headers[i] += "X-Forwarded-For: 203.0.113.9\r\n" // what the proxy adds
	}
	n.sendForged("/wide", headers)
	if counted := n.used("wide", map[string]string{"ip": "203.0.113.9", "path": "/wide"}); counted != len(headers) {
		t.Errorf("counted %d requests of %d", counted, len(headers))
	}
	n.sparesVictims("wide")
	n.isWell(maxMiB)
}

func (n *node) sendForged(path string, headers []string) {
	texts := make([]string, len(headers))
	for i, header := range headers {
		texts[i] = "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + header + "\r\n"
	}
	ask(n.t, n.addresses["gateway"], texts, func(text string, r reply) {
		if r.status != 200 && (path != "/tight" || r.status != 429) {
			n.t.Errorf("%q: status %d", text, r.status)
		}
	})
}

// sparesVictims checks that none of their counters has been touched.
func (n *node) sparesVictims(rules ...string) {
	n.t.Helper()
	for _, rule := range rules {
		for _, victim := range append(victims, "2001:db8:7::", "::ffff:198.51.100.7") {
			if used := n.used(rule, map[string]string{"ip": victim, "path": "/" + rule}); used != 0 {
				n.t.Errorf("%d requests were counted as those of %s", used, victim)
			}
		}
	}
}

// A witnessOfHeaders is an upstream that records which client it is told about.
type witnessOfHeaders struct {
	mu    sync.Mutex
	seen  map[string]int
	wrong []string
}

func (w *witnessOfHeaders) serve(_ http.ResponseWriter, req *http.Request) {
	io.Copy(io.Discard, req.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	w.seen[req.URL.Path]++
	if way := req.Header["X-Forwarded-For"]; !slices.Equal(way, []string{"127.0.0.1"}) {
		w.wrong = append(w.wrong, fmt.Sprintf("X-Forwarded-For is %q", way))
	}
	for name := range maps.Keys(req.Header) {
		plain := strings.NewReplacer("_", "-", ".", "-").Replace(name)
		isIdentity := slices.ContainsFunc(identities, func(identity string) bool { return strings.EqualFold(identity, plain) })
		for _, line := range req.Header[name] {
			if isIdentity && (strings.Contains(line, "198.51.100.7") || strings.Contains(line, "2001:db8") || strings.Contains(line, "c633")) {
				w.wrong = append(w.wrong, fmt.Sprintf("the upstream is told %s: %s", name, line))
			}
		}
	}
}

func (w *witnessOfHeaders) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[path]
}
