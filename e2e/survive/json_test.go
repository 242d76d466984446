//go:build linux

package survive

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const jsonRules = `
rules:
  - {name: tight, key: [user], limits: [{rate: 10/year, algorithm: fixed_window}]}
`

// postJSON returns a request to the decision API.
func postJSON(path, text string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text)
}

// sameUser are ways to write one request of the user u1, and a few that are refused.
func sameUser() []string {
	all := []string{
		`{"attributes":{"user":"u1"}}`, `{"attributes":{"user":"\u00751"}}`, `{"attributes":{"\u0075ser":"u1"}}`, `{"attr\u0069butes":{"user":"u1"}}`, ` { "attributes" : { "user" : "u1" } } `, "{\n\t\"attributes\":\r\n{\"user\":\"u1\"}}",
		`{"attributes":{"user":"u\u0031"}}`, `{"attributes":{"user":"u1"},"cost":1}`, `{"attributes":{"user":"u1"},"cost":1.0}`, `{"attributes":{"user":"u1"},"cost":1e0}`, `{"attributes":{"user":"u1"},"cost":10e-1}`, `{"cost":1,"attributes":{"user":"u1"}}`, `{"attributes":{"user":"u1"},"domain":"default"}`, `{"attributes":{"user":"u1"},"domain":""}`,
		`{"attributes":{"user":"u1"},"id":""}`, `{"attributes":{"user":"u1"},"max_delay_ms":1000}`, `{"attributes":{"user":"u1","path":"/x"}}`, `{"attributes":{"user":"u1","method":"GET","path":"/a/../b"}}`, `{"attributes":{"user":"u1","ip":"198.51.100.7"}}`, `{"attributes":{"user":"u1","ip":"not an address"}}`,
		`{"attributes":{"user":"u1 "}}`, `{"attributes":{"user":" \tu1"}}`, `{"attributes":{"user":"u1\n"}}`,
		// Refused: it is ambiguous which of two is meant.
		`{"attributes":{"user":"u1","user":"other"}}`, `{"attributes":{"user":"other","user":"u1"}}`, `{"attributes":{"user":"u1","\u0075ser":"other"}}`, `{"attributes":{"user":"other"},"attributes":{"user":"u1"}}`, `{"attributes":{"user":"u1"},"Attributes":{"user":"other"}}`, `{"attributes":{"user":"u1"},"cost":-1}`, `{"attributes":{"user":"u1"},"cost":-9223372036854775808}`, `{"attributes":{"user":"u1"},"cost":1,"cost":0}`, `{"attributes":{"user":"u1"},"cost":0.1}`, `{"attributes":{"user":"u1"},"cost":"0"}`, `{"attributes":{"user":["u1"]}}`, `{"attributes":{"user":"u1"},"limit":1000}`, `{"attributes":{"user":"u1"},"allowed":true}`,
	}
	for i := range 40 { // invented ids do not help
		all = append(all, fmt.Sprintf(`{"attributes":{"user":"u1"},"id":"made-up-%d"}`, i))
	}
	return all
}

// otherUsers are not u1, however similar they look.
var otherUsers = []string{`U1`, `u1\u0000`, `u1\u200b`, `u\uff11`, `u1\u0301`, `u01`, `u1/`, `u1,`, `\\u00751`, `u1%20`, `u1_path_x`, `user=u1`, `u1|`, `\"u1\"`, ``}

// Whatever JSON says, a user is counted as that user: spellings of one request share its limit, other
// users have their own, and what is refused is not counted.
func TestHostileJSON(t *testing.T) {
	t.Parallel()
	n := start(t, setup{rules: jsonRules, config: "upstreams: [{url: \"http://127.0.0.1:1\"}]\n"})
	var mu sync.Mutex
	allowed, denied, refused := 0, 0, 0
	var texts []string
	for _, text := range sameUser() {
		texts = append(texts, postJSON("/v1/check", text))
	}
	ask(t, n.addresses["http"], texts, func(text string, r reply) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.status == http.StatusBadRequest && r.isProblem():
			refused++
		case r.status == http.StatusOK && strings.Contains(string(r.body), `"allowed":true`):
			allowed++
		case r.status == http.StatusOK:
			denied++
		default:
			t.Errorf("%q: status %d, %.300s", text, r.status, r.body)
		}
	})
	if allowed != 10 || refused < 13 || denied < 40 {
		t.Errorf("%d allowed, %d denied, %d refused", allowed, denied, refused)
	}
	texts = nil
	for _, user := range otherUsers {
		texts = append(texts, postJSON("/v1/check", fmt.Sprintf(`{"attributes":{"user":"%s"}}`, user)))
	}
	ask(t, n.addresses["http"], texts, func(text string, r reply) {
		if r.status != http.StatusBadRequest && !strings.Contains(string(r.body), `"allowed":true`) {
			t.Errorf("%q: status %d, %.300s", text, r.status, r.body)
		}
	})
	n.concludeMadeUp()
	if used := n.used("tight", map[string]string{"user": "u1"}); used != 10 {
		t.Errorf("u1 has used %d of 10", used)
	}
	n.takesRandomJSON()
	n.isWell(maxMiB)
}

// concludeMadeUp settles, renews and releases reservations that nobody made: nothing is given back.
func (n *node) concludeMadeUp() {
	n.t.Helper()
	var texts []string
	for _, id := range []string{"x", "0", "%00", "..", "%2e%2e%2f", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", strings.Repeat("A", 200), strings.Repeat("-_", 2000), "null", "*", "'%20OR%201=1"} {
		for _, body := range []string{`{"cost":0}`, `{"cost":-10}`, `{"cost":1,"attributes":{"user":"u1"}}`, `{}`} {
			texts = append(texts, postJSON("/v1/reservations/"+id+"/settle", body))
		}
		texts = append(texts, postJSON("/v1/reservations/"+id+"/renew", `{"ttl_ms":1000}`), "DELETE /v1/reservations/"+id+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	}
	ask(n.t, n.addresses["http"], texts, func(text string, r reply) {
		if r.status >= 500 || r.status == http.StatusOK && strings.Contains(text, "settle") {
			n.t.Errorf("%.200q: status %d, %.300s", text, r.status, r.body)
		}
	})
}

// takesRandomJSON sends JSON that is well-formed, made of what the API knows and of what it does not.
func (n *node) takesRandomJSON() {
	random := rand.New(rand.NewPCG(5, 14))
	paths := []string{"/v1/check", "/v1/check/batch", "/v1/reserve", "/v1/reservations/x/settle", "/v1/reservations/x/renew", "/json"}
	var texts []string
	for i := range 3000 * longer {
		text, err := json.Marshal(randomJSON(random, 5))
		if err != nil {
			n.t.Fatal(err)
		}
		texts = append(texts, postJSON(paths[i%len(paths)], string(text)))
	}
	ask(n.t, n.addresses["http"], texts, func(text string, r reply) {
		if r.status >= 500 || len(r.body) > 64<<10 {
			n.t.Errorf("%.300q: status %d, %.300s", text, r.status, r.body)
		}
	})
}

var jsonNames = []string{
	"attributes", "user", "cost", "id", "domain", "calls", "ttl_ms", "max_delay_ms", "path", "method", "ip", "response", "header", "bytes", "descriptors", "entries", "key", "value", "hitsAddend", "hits_addend", "limit", "unit", "requestsPerUnit", "requests_per_unit", "", "__proto__", "constructor", "\x00", "é",
}

var jsonLeaves = []any{
	nil, true, false, 0, 1, -1, 1.5, 1e300, 9007199254740993, json.Number("1e400"), json.Number("-0"), json.Number("99999999999999999999"), json.Number("0.1e1"), "", "u1", "default", "198.51.100.7", "SECOND", "\x00", "\u2028", strings.Repeat("x", 9000), "-1", "1e9", "NaN",
}

// randomJSON returns something to marshal, at most so deep.
func randomJSON(random *rand.Rand, depth int) any {
	kind := random.IntN(4)
	switch {
	case depth == 5 || depth > 0 && kind == 0:
		object := map[string]any{}
		for range random.IntN(5) {
			object[jsonNames[random.IntN(len(jsonNames))]] = randomJSON(random, depth-1)
		}
		return object
	case depth > 0 && kind == 1:
		list := make([]any, random.IntN(4))
		for i := range list {
			list[i] = randomJSON(random, depth-1)
		}
		return list
	}
	return jsonLeaves[random.IntN(len(jsonLeaves))]
}
