package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Three nodes on one Redis, as the page "Protect a login by failures only" configures them. Of a thousand wrong
// logins at once exactly five reach the server. Correct ones cost nothing. Forward-auth with reports to another node
// than the one that decided counts the same, and so do strikes.
func TestLoginsByFailures(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if r.Header.Get("X-Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(up.Close)
	rules := rulesFile(t, `
attributes: {user: {header: X-User}}
rules:
  - {name: failed-logins, match: {path: /login}, key: [user], limits: [{rate: 5/360d, algorithm: fixed_window}], charge_if: 'status in [401, 403]'}
  - {name: guesses, match: {path: /guess}, key: [user], limits: [{rate: 1000/360d, algorithm: fixed_window}], penalty: {after: 3, within: 1h, bans: [1h], strike_if: status == 401}}
`)
	redis := onRedis("single", redistest.Start(t).Addr)
	var nodes []*node
	for range 3 {
		nodes = append(nodes, start(t, rules, redis, fmt.Sprintf("upstreams: [{url: '%s'}]", up.URL)))
	}
	login := func(i int, user, password string) answer {
		return nodes[i%3].get("gateway", "/login", "X-User: "+user, "X-Password: "+password)
	}
	for i := range 10 {
		// A settlement that Redis does not confirm in time is sent again, and until then the login counts.
		eventually(t, "a correct login passes", func() bool { return login(i, "alice", "right").StatusCode == http.StatusOK })
	}
	reached.Store(0)
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() { login(i, "mallory", "wrong") })
	}
	all.Wait()
	if n := reached.Load(); n != 5 {
		t.Errorf("%d wrong logins reached the server, want 5", n)
	}
	if a := login(0, "mallory", "right"); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("after five wrong logins: %s %v", a.Status, a.Header)
	}
	checkReported(t, nodes)
}

// checkReported logs in at one node and reports at another, until the client is banned.
func checkReported(t *testing.T, nodes []*node) {
	t.Helper()
	auth := func(i int) answer {
		return nodes[i%3].get("http", "/v1/auth", "X-User: eve", "X-Forwarded-Method: POST", "X-Forwarded-Uri: /guess", "X-Forwarded-For: 192.0.2.1")
	}
	for i := range 3 {
		a := auth(i)
		reservation := a.Header.Get("X-Penstock-Reservation")
		if a.StatusCode != http.StatusOK || reservation == "" {
			t.Fatalf("guess %d: %s %v", i+1, a.Status, a.Header)
		}
		for k := range 3 { // a report that is sent again is no second strike
			a := nodes[(i+k+1)%3].post("/v1/report", fmt.Sprintf(`{"reservation":%q,"status":401}`, reservation))
			var v verdict
			if err := json.Unmarshal(a.body, &v); err != nil || a.StatusCode != http.StatusOK {
				t.Fatalf("report %d: %s %s", i+1, a.Status, a.body)
			}
			if banned := v.Reason == "banned"; banned != (i == 2 && k == 0) {
				t.Errorf("report %d, sent %d times: reason %s", i+1, k+1, v.Reason)
			}
		}
	}
	if a := auth(0); a.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(a.body), "guesses") {
		t.Errorf("after three strikes: %s %s", a.Status, a.body)
	}
}
