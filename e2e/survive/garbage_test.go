//go:build linux

package survive

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

const goodCheck = `{"domain": "default", "attributes": {"user": "u1", "path": "/search", "method": "GET"}, "cost": 1, "id": "i"}`

// A body is what is sent to an address of the decision API.
type body struct {
	path   string
	text   []byte
	isGood bool // or could be
}

// Whatever a client sends to the decision API, the answer says what is wrong with it, and is never a
// server error.
func TestDecisionAPITakesNoGarbage(t *testing.T) {
	t.Parallel()
	n := start(t, setup{config: "upstreams: [{url: \"http://127.0.0.1:1\"}]\n"})
	var texts []string
	isGood := map[string]bool{} // or could be
	for _, b := range append(badBodies(), randomBodies(10000*longer)...) {
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", b.path, len(b.text), b.text)
		texts = append(texts, text)
		isGood[text] = b.isGood
	}
	ask(t, n.addresses["http"], texts, func(text string, r reply) {
		if isGood[text] && r.status == http.StatusOK {
			return
		}
		if r.status < 400 || r.status > 499 || !r.isProblem() || len(r.body) > 64<<10 {
			t.Errorf("%.300q: status %d, %.300s", text, r.status, r.body)
		}
	})
	n.isWell(maxMiB)
}

// isProblem tells whether the answer says what is wrong.
func (r reply) isProblem() bool {
	var problem struct {
		Status int
		Detail string
	}
	err := json.Unmarshal(r.body, &problem)
	return err == nil && r.header.Get("Content-Type") == "application/problem+json" && problem.Status == r.status && problem.Detail != ""
}

// badBodies are wrong each in its own way.
func badBodies() (all []body) {
	texts := []string{
		"", " ", "null", "true", "0", `""`, "[]", "{}}", "{", "}", "[", `{"`, `{"attributes"`, `{"attributes":`, `{"attributes":{`, "\xef\xbb\xbf" + goodCheck, goodCheck + goodCheck, goodCheck + "x", "\x00", "\xff\xfe{\x00}\x00",
		`{"attributes": null}`, `{"attributes": []}`, `{"attributes": "x"}`, `{"attributes": {"user": 1}}`, `{"attributes": {"user": null}}`, `{"attributes": {"user": ["a"]}}`, `{"attributes": {"user": {"a": "b"}}}`,
		`{"attributes": {"user": "a", "user": "b"}}`, `{"attributes": {"user": "a"}, "attributes": {"user": "b"}}`, `{"attributes": {"user": "a"}, "cost": 1, "cost": 0}`, `{"attributes": {"user": "a"}, "Cost": 0}`, `{"attributes": {}, "unknown": 1}`,
		`{"attributes": {}, "cost": -1}`, `{"attributes": {}, "cost": 1.5}`, `{"attributes": {}, "cost": 1e3000}`, `{"attributes": {}, "cost": 99999999999999999999}`, `{"attributes": {}, "cost": 9007199254740993}`, `{"attributes": {}, "cost": "1"}`, `{"attributes": {}, "cost": NaN}`, `{"attributes": {}, "cost": 0x1}`, `{"attributes": {}, "cost": 01}`,
		`{"attributes": {"user": "\ud800"}}`, `{"attributes": {"user": "` + "\xff" + `"}}`, `{"attributes": {"user": "a` + "\n" + `b"}}`, `{"attributes": {'user': 'a'}}`, `{"attributes": {"user": "a",}}`, `{attributes: {}}`, `{"attributes": {}} // x`,
		`{"domain": 1, "attributes": {}}`, `{"id": {}, "attributes": {}}`, `{"calls": {}}`, `{"calls": [null]}`, `{"calls": [[]]}`, `{"calls": []} x`,
		strings.Repeat("[", 100000), strings.Repeat(`{"attributes":`, 10000), `{"attributes": {"user": ` + strings.Repeat("[", 30000) + strings.Repeat("]", 30000) + "}}", `{"calls": [` + strings.Repeat("[", 10000) + "]}",
		`{"attributes": {"user": "` + strings.Repeat("x", 4<<20) + `"}}`, `{"attributes": {"` + strings.Repeat("x", 4<<20) + `": "a"}}`, strings.Repeat(" ", 4<<20), `{"attributes": {}, "cost": ` + strings.Repeat("1", 1<<20) + "}",
		`{"attributes": {` + strings.Repeat(`"a": "b", `, 100000) + `"c": "d"}}`, `{"calls": [` + strings.Repeat(goodCheck+",", 100000) + goodCheck + "]}",
	}
	for i := 1; i < len(goodCheck); i++ {
		texts = append(texts, goodCheck[:i])
	}
	for _, text := range texts {
		for _, path := range []string{"/v1/check", "/v1/check/batch", "/v1/reserve", "/v1/reservations/x/settle", "/v1/reservations/x/renew"} {
			all = append(all, body{path: path, text: []byte(text)})
		}
	}
	return all
}

// randomBodies are bytes by chance, and good ones with some bytes changed: the same every time. The
// latter can still be good.
func randomBodies(count int) []body {
	random := rand.New(rand.NewPCG(7, 5))
	paths := []string{"/v1/check", "/v1/check/batch", "/v1/reserve"}
	all := make([]body, count)
	for i := range all {
		b := body{path: paths[i%len(paths)]}
		if i%2 == 0 {
			b.text = make([]byte, 1+random.IntN(512))
			for k := range b.text {
				b.text[k] = byte(random.Uint32())
			}
		} else {
			b.text, b.isGood = []byte(goodCheck), true
			for range 1 + random.IntN(4) {
				b.text[random.IntN(len(b.text))] = byte(random.Uint32())
			}
		}
		all[i] = b
	}
	return all
}
