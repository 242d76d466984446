//go:build linux

package survive

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

const smuggleRules = `
rules:
  - {name: all, key: [], ` + counted + `}
  - {name: each, match: {path: "/p/{number}/{rest...}"}, key: [number], ` + counted + `}
`

// Short, because most payloads end with a client that waits for more than it will get.
const smuggleConfig = `
gateway: {h2c: true, timeouts: {read_header: 300ms, idle: 300ms, body: 300ms}}
upstreams: [{url: %q}]
`

// A payload is what a client sends on one connection. Paths in it begin with /p/ and its number.
type payload struct {
	number string
	text   string
	send   func(t *testing.T, address string) []reply
}

// Whatever clients send, the upstream gets no request that the limiter has not counted. If a counted
// request is not forwarded, the client is told so.
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	all := append(payloads(), payloadsOfHTTP2()...)
	if len(all) < 1000 {
		t.Errorf("only %d payloads", len(all))
	}
	for name, newWitness := range witnesses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			n := start(t, setup{rules: smuggleRules, config: fmt.Sprintf(smuggleConfig, w.url)})
			n.isNotFooled(w, all)
			n.isWell(maxMiB)
		})
	}
}

// isNotFooled sends the payloads and compares what was counted with what the upstream has seen.
func (n *node) isNotFooled(w recordingUpstream, all []payload) {
	n.t.Helper()
	var mu sync.Mutex
	refused, served := map[string]bool{}, 0
	inParallel(all, 64, func(p payload) {
		replies := p.send(n.t, n.addresses["gateway"])
		mu.Lock()
		defer mu.Unlock()
		for _, r := range replies {
			switch {
			case r.status >= 400:
				refused[p.number] = true
			case r.status >= 200 && r.header.Get("X-Request-Id") != "": // else net/http's own, to OPTIONS *
				served++
			}
		}
	})
	// What the upstream has seen is read first: what comes later is counted before it is sent.
	seen := perPayload(w.seen())
	counted := map[string]int{}
	whole := 0
	for _, p := range all {
		k := p.number
		counted[k] = n.used("each", map[string]string{"path": "/p/" + k + "/x"})
		if seen[k] > counted[k] {
			n.t.Errorf("%s\ncounted %d, the upstream has seen %d", p.text, counted[k], seen[k])
		}
		if counted[k] > 0 && counted[k] == seen[k] {
			whole++
		}
	}
	total := n.used("all", map[string]string{})
	if sum(seen) > total || served > total {
		n.t.Errorf("counted %d, the upstream has seen %d and clients %d", total, sum(seen), served)
	}
	n.t.Logf("%d payloads: counted %d, the upstream has seen %d and clients %d; %d payloads whole", len(all), total, sum(seen), served, whole)
	if whole < len(all)/10 {
		n.t.Errorf("only %d of %d payloads were served: the corpus has lost its point", whole, len(all))
	}
	eventually(n.t, "the upstream has seen what was counted and not refused", func() bool {
		seen := perPayload(w.seen()) // nginx writes its log after its answer
		for k := range counted {
			if counted[k] > seen[k] && !refused[k] {
				return false
			}
		}
		return true
	})
}

// number makes payloads of HTTP/1.1 texts with NNNN for the number.
func number(texts []string) []payload {
	all := make([]payload, len(texts))
	for i, text := range texts {
		number := fmt.Sprintf("%04d", i) // of one width, as lengths are worked out before
		text = strings.ReplaceAll(text, "/NNNN/", "/"+number+"/")
		all[i] = payload{number, fmt.Sprintf("%q", text), func(t *testing.T, address string) []reply { return converse(t, address, text) }}
	}
	return all
}

// hidden is what an attacker tries to smuggle past the limiter inside another request.
const hidden = "GET /p/NNNN/hidden HTTP/1.1\r\nHost: a\r\n\r\n"

// payloads are requests with two possible ends, and another request inside.
func payloads() []payload {
	texts := slices.Concat(oddLengthsAndEncodings(), oddChunks(), oddHeads(), oddHeaders())
	return number(texts)
}
