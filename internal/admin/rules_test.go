package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/rulediff"
)

func TestReadRules(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	set := get[admin.RuleSet](s, "GET", "/v1/rules", "")
	if set.Kind != admin.Database || !set.Editable || set.Document != someRules || set.Version.Number != 1 || set.Version.Author != "test" || set.Checksum == "" || set.Served.Rules != 3 {
		t.Errorf("%+v", set)
	}
	if len(set.Rules) != 3 {
		t.Fatalf("%d rules", len(set.Rules))
	}
	first, tried := set.Rules[0], set.Rules[2]
	if first.Name != "per-user" || first.Match != "/search" || first.Key[0] != "user" || first.Line != 6 || !first.Penalty || first.Limits[0].Text != "sliding_window_log 3/1h" ||
		!strings.Contains(string(first.Terms), `"sliding_window_log"`) {
		t.Errorf("%+v", first)
	}
	if tried.Mode != "shadow" || tried.Match != "every call" || len(tried.Key) != 0 {
		t.Errorf("%+v", tried)
	}
	s.refused("GET", "/v1/rules?x=1", "", 400, admin.Invalid, "unknown parameter")
}

func TestMatchInWords(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: `
attributes: {plan: {header: X-Plan}}
rules:
  - {name: a, match: {domain: d, method: [GET, POST], path: "/x/{id}", plan: [gold, silver], host: a.example, when: id == "7"}, key: [], limits: [1/1m]}
  - {name: b, match: {method: PUT}, key: [], limits: [1/1m], owner: me, expires_at: 2099-01-01T00:00:00Z}
`})
	set := get[admin.RuleSet](s, "GET", "/v1/rules", "")
	if got := set.Rules[0].Match; got != `domain d, GET or POST /x/{id}, host a.example, plan gold or silver, when id == "7"` {
		t.Error(got)
	}
	if r := set.Rules[1]; r.Match != "PUT" || r.Owner != "me" || r.Expires.Year() != 2099 {
		t.Errorf("%+v", r)
	}
}

func TestSaveAndRollBack(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	changed := strings.Replace(someRules, "3/1h", "5/1h", 1)
	saved := get[admin.SaveResult](s, "PUT", "/v1/rules", object("document", changed, "base", 1, "message", "more"))
	if saved.Version.Number != 2 || !saved.Changed || saved.Version.Message != "more" || !strings.HasPrefix(saved.Version.Author, "admin.token ") ||
		len(saved.Changes) != 1 || saved.Changes[0].Op != rulediff.Alter || saved.Changes[0].Name != "per-user" {
		t.Errorf("%+v", saved)
	}
	eventually(t, "the new rules are served", func() bool { return get[admin.RuleSet](s, "GET", "/v1/rules", "").Served.Version == 2 })

	again := get[admin.SaveResult](s, "PUT", "/v1/rules", object("document", changed, "base", 2))
	if again.Changed || again.Version.Number != 2 {
		t.Errorf("the same again: %+v", again)
	}
	p := s.refused("PUT", "/v1/rules", object("document", someRules+"# late", "base", 1), 409, admin.Conflict, "the change was made from version 1")
	if p.Current == nil || p.Current.Number != 2 || !strings.Contains(p.Diff, "+    limits: [{rate: 5/1h") {
		t.Errorf("%+v", p)
	}

	back := get[admin.SaveResult](s, "POST", "/v1/rules/rollback", object("to", 1, "base", 2, "message", "back"))
	if back.Version.Number != 3 || back.Version.Restores != 1 || len(back.Changes) != 1 {
		t.Errorf("%+v", back)
	}
	s.refused("POST", "/v1/rules/rollback", object("to", 3, "base", 3), 409, admin.Conflict, "version 3 is the current one")
	s.refused("POST", "/v1/rules/rollback", object("to", 2, "base", 2), 409, admin.Conflict, "made from version 2")
	s.refused("POST", "/v1/rules/rollback", object("to", 9, "base", 3), 404, admin.NotFound)
	s.refused("POST", "/v1/rules/rollback", object(), 400, admin.Invalid, `"at":"to"`, `"at":"base"`)

	history := get[admin.Versions](s, "GET", "/v1/rules/versions?limit=2", "")
	if len(history.Versions) != 2 || history.Versions[0].Number != 3 || history.Next != 2 {
		t.Errorf("%+v", history)
	}
	history = get[admin.Versions](s, "GET", fmt.Sprintf("/v1/rules/versions?before=%d", history.Next), "")
	if len(history.Versions) != 1 || history.Versions[0].Number != 1 || history.Next != 0 {
		t.Errorf("%+v", history)
	}
	if v := get[admin.Version](s, "GET", "/v1/rules/versions/2", ""); v.Document != changed {
		t.Errorf("%+v", v)
	}
	s.refused("GET", "/v1/rules/versions/9", "", 404, admin.NotFound)
	s.refused("GET", "/v1/rules/versions/x", "", 400, admin.Invalid)
	s.refused("GET", "/v1/rules/versions?before=x&limit=0&other=1", "", 400, admin.Invalid, `"before"`, `"limit"`, `"other"`)

	audit := get[admin.AuditPage](s, "GET", "/v1/audit", "")
	if len(audit.Events) != 3 || audit.Events[0].Action != "rollback" || audit.Events[0].Version != 3 || !strings.Contains(audit.Events[0].Actor, "admin.token ") || !strings.Contains(audit.Events[0].Actor, " at 10.") {
		t.Errorf("%+v", audit)
	}
}

const badRules = `rules:
  - name: x
    key: [user]
    limits: [5/1mn]
  - {nmae: y}
`

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	found := get[admin.Validation](s, "POST", "/v1/rules/validate", object("document", badRules))
	if found.Valid || len(found.Problems) < 3 {
		t.Fatalf("%+v", found)
	}
	if p := found.Problems[0]; p.Line != 4 || p.Column != 17 || p.Text != "    limits: [5/1mn]" || p.Hint == "" {
		t.Errorf("%+v", p)
	}
	p := s.refused("PUT", "/v1/rules", object("document", badRules, "base", 1), 400, admin.Invalid)
	if len(p.Problems) != 5 {
		t.Errorf("%+v", p.Problems)
	}
	s.refused("POST", "/v1/rules/preview", object("document", badRules), 400, admin.Invalid, "unknown unit mn")
	s.refused("POST", "/v1/rules/diff", object("document", badRules), 400, admin.Invalid, "unknown unit mn")
	for _, path := range []string{"/v1/rules/validate", "/v1/rules/preview"} {
		s.refused("POST", path, object(), 400, admin.Invalid, "document")
	}
	s.refused("PUT", "/v1/rules", object("document", someRules), 400, admin.Invalid, `"at":"base"`)
	s.refused("PUT", "/v1/rules", object("base", 1), 400, admin.Invalid, `"at":"document"`)
	s.refused("PUT", "/v1/rules", object("document", someRules+"\n", "base", 1, "message", "\x00"), 400, admin.Invalid, "control characters")

	good := get[admin.Validation](s, "POST", "/v1/rules/validate", object("document", "rules: [{name: x, key: [nobody], limits: [1/1m]}]"))
	if !good.Valid || good.Rules != 1 || len(good.Problems) != 1 || good.Problems[0].Severity.String() != "warning" {
		t.Errorf("%+v", good)
	}
	if now := get[admin.RuleSet](s, "GET", "/v1/rules", ""); now.Version.Number != 1 {
		t.Errorf("something was saved: %+v", now.Version)
	}
}

// Rules that were saved by other means and cannot be served are shown with their errors.
func TestReadRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	db, err := s.service.Database.DB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Save(t.Context(), ruledb.Change{Base: 1, Author: "somebody", Document: []byte(badRules)}); err != nil {
		t.Fatal(err)
	}
	var set admin.RuleSet
	eventually(t, "they are refused", func() bool {
		set = get[admin.RuleSet](s, "GET", "/v1/rules", "")
		return set.Served.Refused != ""
	})
	if set.Document != badRules || set.Version.Number != 2 || set.Served.Version != 1 || len(set.Rules) != 0 || len(set.Problems) < 5 {
		t.Errorf("%+v", set)
	}
	back := get[admin.SaveResult](s, "POST", "/v1/rules/rollback", object("to", 1, "base", 2))
	if back.Version.Number != 3 {
		t.Errorf("%+v", back)
	}
	s.refused("POST", "/v1/rules/rollback", object("to", 2, "base", 3), 400, admin.Invalid, "unknown unit mn")
}

func TestDiffRules(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	changed := strings.Replace(someRules, "3/1h", "5/1h", 1)
	d := get[rulediff.Diff](s, "POST", "/v1/rules/diff", object("document", changed))
	if d.Same || len(d.Changes) != 1 || !strings.Contains(d.Text, "--- version 1\n+++ document\n") {
		t.Errorf("%+v", d)
	}
	if d := get[rulediff.Diff](s, "POST", "/v1/rules/diff", object("document", someRules, "from", 1)); !d.Same {
		t.Errorf("%+v", d)
	}
	get[admin.SaveResult](s, "PUT", "/v1/rules", object("document", changed, "base", 1))
	if d := get[rulediff.Diff](s, "POST", "/v1/rules/diff", object("from", 2, "to", 1)); d.Same || d.Changes[0].Fields[0].Field != "limits" {
		t.Errorf("%+v", d)
	}
	s.refused("POST", "/v1/rules/diff", object("from", 1), 400, admin.Invalid)
	s.refused("POST", "/v1/rules/diff", object("from", 1, "to", 2, "document", ""), 400, admin.Invalid)
	s.refused("POST", "/v1/rules/diff", object("from", 7, "to", 1), 404, admin.NotFound)
}

// Rules outside a database can be read here, but are changed elsewhere.
func TestRulesFromElsewhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []admin.Kind{admin.Files, admin.Redis} {
		s := newTestAdmin(t, setup{kind: kind})
		set := get[admin.RuleSet](s, "GET", "/v1/rules", "")
		if set.Editable || set.Reason == "" || set.Document != someRules || len(set.Rules) != 3 || set.Version != nil || set.Kind != kind {
			t.Errorf("%+v", set)
		}
		s.refused("PUT", "/v1/rules", object("document", someRules, "base", 0), 409, admin.Conflict, "rules.yaml", "the rules come from")
		s.refused("POST", "/v1/rules/rollback", object("to", 1, "base", 2), 409, admin.Conflict, "rules.yaml")
		s.refused("POST", "/v1/rules/per-user/overrides", object("match", map[string]string{"user": "u1"}, "limit", "1/1m"), 409, admin.Conflict, "rules.yaml")
		s.refused("GET", "/v1/rules/versions", "", 404, admin.NotFound)
		s.refused("GET", "/v1/audit", "", 404, admin.NotFound)
		if d := get[rulediff.Diff](s, "POST", "/v1/rules/diff", object("document", someRules)); len(d.Changes) != 0 {
			t.Errorf("%+v", d)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	if w := s.ask("GET", "/v1/rules/schema", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "sliding_window_log") {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	e := get[admin.Explanation](s, "POST", "/v1/explain", object("attributes", map[string]string{"path": "/other", "ip": "192.0.2.1"}))
	if len(e.Rules) != 3 || e.Rules[0].Applies || e.Rules[0].Reason != "path" || !e.Rules[1].Applies || e.Rules[1].Key["ip"] != "192.0.2.1" || !e.Rules[2].Applies {
		t.Errorf("%+v", e)
	}
	s.refused("POST", "/v1/explain", object("attributes", map[string]string{"": "x", "y": strings.Repeat("z", 8193)}, "domain", strings.Repeat("d", 256)), 400, admin.Invalid,
		"a name of 0 bytes", "a value of 8193 bytes", `"at":"domain"`)
}

// Viewers can have smaller documents compiled than operators can save.
func TestViewersSendSmallDocuments(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	long := object("document", "rules: []\n#"+strings.Repeat("x", 4<<20))
	for _, path := range []string{"/v1/rules/validate", "/v1/rules/diff"} {
		if got := s.askAs(viewerToken, "POST", path, long); got.Code != 400 || !strings.Contains(got.Body.String(), "at most 4194304 bytes") {
			t.Errorf("%s: %d %.200s", path, got.Code, got.Body)
		}
		if got := s.askAs(operatorToken, "POST", path, long); got.Code != 200 {
			t.Errorf("%s by an operator: %d %.200s", path, got.Code, got.Body)
		}
	}
	if got := s.askAs(viewerToken, "POST", "/v1/playground", object("lanes", strings.Repeat("x", 2<<20))); got.Code != 413 {
		t.Errorf("a game: %d %.200s", got.Code, got.Body)
	}
}

// Compiling ends with the request: nothing is compiled to the end if the client has gone away.
func TestCompilingEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	gone, leave := context.WithCancel(t.Context())
	leave()
	body := object("document", "rules: []\nlists: {deny: ["+strings.Repeat("{user: a},", 20_000)+"]}")
	for _, path := range []string{"/v1/rules/validate", "/v1/rules/diff", "/v1/rules/preview"} {
		for range 20 { // whether it gets a turn is random
			r := s.request("POST", path, body, "Authorization", "Bearer "+operatorToken)
			if w := s.serve(r.WithContext(gone)); w.Code != 503 {
				t.Fatalf("%s: %d %.200s", path, w.Code, w.Body)
			}
		}
	}
}
