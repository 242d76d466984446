package admin_test

import (
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
)

// Attention has targets without measurements and, without a history, findings that are not urgent.
func TestAttention(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	quiet := get[admin.Attention](s, "GET", "/v1/attention", "")
	if len(quiet.Targets) != 3 || quiet.Targets[0].State != "unknown" || len(quiet.Findings) != 0 {
		t.Errorf("without requests %+v", quiet)
	}
	for range 25 {
		search(s, "u1")
	}
	kinds := map[string]string{}
	for _, f := range get[admin.Attention](s, "GET", "/v1/attention", "").Findings {
		kinds[f.Rule] = f.Severity + " " + f.Kind
	}
	if len(kinds) != 2 || kinds["per-user"] != "info denies" || kinds["tried"] != "info shadow" {
		t.Errorf("got %v", kinds)
	}
	s.refused("GET", "/v1/attention?colour=red", "", 400, admin.Invalid, `"colour"`)
	s.refused("GET", "/v1/history", "", 503, admin.Unavailable, "no history")
	s.refused("GET", "/v1/history?last=49h", "", 400, admin.Invalid, `"last"`)
	s.refused("GET", "/v1/history?from=yesterday", "", 400, admin.Invalid, `"from"`)
}
