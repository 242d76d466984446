package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// run runs a command that asks the admin API of the process.
func (p *process) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, env: []string{"PENSTOCK_ADMIN_SERVER=http://" + p.addresses["admin"], "PENSTOCK_TOKEN=" + p.token(t)}}
	code = a.run(t.Context(), args)
	return code, out.String(), errs.String()
}

// A server says which rules apply, and whether the client is over its limit or banned.
func TestExplainAsksTheServer(t *testing.T) {
	t.Parallel()
	p := startServe(t, "rules: {file: "+nodetest.RulesFile(t, keyRules)+"}")
	explain := func() (now map[string]clientState) {
		t.Helper()
		code, out, errs := p.run(t, "explain", "--timeout", nodetest.Timeout.String(), "-o", "json", "path=/search", "user=u1")
		var found explainResult
		if err := json.Unmarshal([]byte(out), &found); err != nil || code != exitYes || len(found.Rules) != 2 {
			t.Fatalf("exit status %d, %v: %s%s", code, err, out, errs)
		}
		now = map[string]clientState{}
		for _, s := range found.Now {
			now[s.Rule] = s
		}
		return now
	}
	if s := explain()["per-user"]; s.State != withinLimit || s.Used != 0 || s.Limit != 3 || s.Until != nil {
		t.Errorf("before any request: %+v", s)
	}
	for range 3 {
		p.allows(t, `{"user": "u1", "path": "/search"}`)
	}
	now := explain()
	if s := now["per-user"]; s.State != overLimit || s.Used != 3 || s.Policy != "per-user:1d" || s.Until == nil || !s.Until.After(time.Now()) {
		t.Errorf("after three requests: %+v", s)
	}
	if s := now["site"]; s.State != withinLimit || s.Used != 3 || s.Limit != 1000 {
		t.Errorf("the other rule: %+v", s)
	}
	if code, _, errs := p.keys(t, "ban", "user=u1", "--for", "1h"); code != exitYes {
		t.Fatal(errs)
	}
	if s := explain()["per-user"]; s.State != banned || s.Until == nil || time.Until(*s.Until) > time.Hour {
		t.Errorf("while banned: %+v", s)
	}
	code, out, errs := p.run(t, "explain", "path=/search", "user=u1")
	if code != exitYes || !strings.Contains(out, "\nper-user: banned until 20") || !strings.Contains(out, "\nsite: within its limit, 3 of 1000 used (site)\n") || errs != "2 of 2 rules apply\n" {
		t.Errorf("exit status %d\n%s%s", code, out, errs)
	}
	if _, out, _ := p.run(t, "explain", "--at", "2027-01-01T00:00:00Z", "path=/search", "user=u1"); strings.Contains(out, "banned") {
		t.Errorf("at another time:\n%s", out)
	}
}
