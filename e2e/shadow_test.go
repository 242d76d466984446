package e2e

import (
	"fmt"
	"testing"
)

// A shadow rule never denies over any API. Its numbers are in the decision API, and nothing of it is visible to
// clients.
func TestShadowNeverDenies(t *testing.T) {
	t.Parallel()
	const tried = `
attributes: {user: {header: X-User}}
rules:
  - {name: tried, mode: shadow, key: [user], limits: [{rate: 1/30d, algorithm: sliding_window_log}], penalty: {after: 1, within: 1d, bans: [1d]}}
  - {name: strict, mode: shadow, key: [], limits: [0/1h]}
  - {name: per-user, key: [user], limits: [{rate: 20/30d, algorithm: sliding_window_log}]}
`
	n := start(t, newUpstream(t).config(), rulesFile(t, tried))
	atEveryDoor(t, func(t *testing.T, d decisionAPI) {
		user := "at " + d.name
		for i := range 20 / d.calls {
			if passed := d.ask(n, user); passed != d.calls {
				t.Fatalf("request %d: %d of %d calls passed", i+1, passed, d.calls)
			}
		}
		if d.ask(n, user) != 0 {
			t.Error("the rule that is in force let a call pass")
		}
		v := n.check(fmt.Sprintf(`{"attributes": {"user": %q}, "cost": 1}`, user))
		if v.Allowed || v.Rule != "per-user" || len(v.Limits) != 3 {
			t.Errorf("in the end: %+v", v)
		}
		for _, l := range v.Limits {
			if l.Allowed || l.Shadow != (l.Rule != "per-user") {
				t.Errorf("limit %+v", l)
			}
		}
		if v.used("tried") != 1 || v.used("per-user") != 20 {
			t.Errorf("in the end: %+v", v)
		}
	})
	a := n.get("gateway", "/x", "X-User: another")
	if policy := a.Header.Get("RateLimit-Policy"); policy != `"per-user";q=20;w=2592000` {
		t.Errorf("clients are told of %s", policy)
	}
}
