package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/rules"
)

func TestAddOverride(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	expires := s.clock.Now().Add(time.Hour).UTC().Truncate(time.Second)
	saved := get[admin.SaveResult](s, "POST", "/v1/rules/per-user/overrides", object("match", u1, "limit", "100/1h", "expires", expires))
	if saved.Version.Number != 2 || saved.Version.Message != "override of per-user" || len(saved.Changes) != 1 || saved.Changes[0].Fields[0].Field != "overrides" {
		t.Errorf("%+v", saved)
	}
	second := get[admin.SaveResult](s, "POST", "/v1/rules/per-user/overrides", object("match", map[string]string{"plan": "gold*"}, "limit", "unlimited", "message", "gold", "base", 2))
	if second.Version.Number != 3 {
		t.Errorf("%+v", second)
	}
	set := get[admin.RuleSet](s, "GET", "/v1/rules", "")
	for _, line := range strings.Split(strings.TrimSpace(someRules), "\n") {
		if !strings.Contains(set.Document, line+"\n") {
			t.Errorf("%q is gone:\n%s", line, set.Document)
		}
	}
	overrides := set.Rules[0].Overrides
	if len(overrides) != 2 || !overrides[0].Unlimited || overrides[0].Match != "plan gold*" || overrides[1].Match != "user u1" || !overrides[1].Expires.Equal(expires) {
		t.Errorf("%+v\n%s", overrides, set.Document)
	}
	eventually(t, "the override holds", func() bool { return s.live.Load().Version == 3 })
	for i := range 4 {
		if !search(s, "u1") {
			t.Errorf("call %d is denied", i)
		}
	}

	s.refused("POST", "/v1/rules/per-user/overrides", object("match", u1, "limit", "1/1m", "base", 1), 409, admin.Conflict)
	s.refused("POST", "/v1/rules/nonsense/overrides", object("match", u1, "limit", "1/1m"), 404, admin.NotFound)
	s.refused("POST", "/v1/rules/per-user/overrides", object("match", map[string]string{}, "expires", time.Unix(0, 0)), 400, admin.Invalid, `"at":"match"`, `"at":"limit"`, `"at":"expires"`)
	if p := s.refused("POST", "/v1/rules/per-user/overrides", object("match", u1, "limit", "1/1mn"), 400, admin.Invalid, "unknown unit"); len(p.Problems) != 1 {
		t.Errorf("%+v", p)
	}
	s.refused("POST", "/v1/rules/per-user/overrides", object("match", map[string]string{"nobody: {": "x"}, "limit", "1/1m"), 400, admin.Invalid)
}

// An override can be added to a document of any style, and nothing else changes.
func TestAddOverrideToAnyDocument(t *testing.T) {
	hostile := map[string]string{"user": "a: b # c\"'\\ \n\t{[,]}*&!|>%@`ü\u2028"}
	for name, text := range map[string]string{
		"block":              "rules:\n  - name: r\n    key: [user]\n    limits: [1/1m]\n",
		"name in the middle": "rules:\n  - key: [user]\n    # whose\n    name: 'r'   # it is\n    limits:\n      - 1/1m\n",
		"without indent":     "rules:\n- name: r\n  key: [user]\n  limits: [1/1m]\n- name: s\n  key: []\n  limits: [1/1m]",
		"no end of line":     "rules:\n- limits: [1/1m]\n  key: [user]\n  name: r",
		"line ends of DOS":   "rules:\r\n  - name: r\r\n    key: [user]\r\n    limits: [1/1m]\r\n",
		"flow":               "rules: [{name: s, key: [], limits: [1/1m]}, {name: r, key: [user], limits: [1/1m]}]",
		"flow of lines":      "rules:\n  - {name: r,\n     key: [user],\n     limits: [1/1m]}\n",
		"json":               `{"rules": [{"name": "r", "key": ["user"], "limits": ["1/1m"]}]}`,
		"json of lines":      "{\n  \"rules\": [\n    {\n      \"name\": \"r\",\n      \"key\": [\"user\"],\n      \"limits\": [\"1/1m\"],\n      \"overrides\": [\n        {\"match\": {\"user\": \"x\"}, \"limits\": \"unlimited\"}\n      ]\n    }\n  ]\n}",
		"overrides":          "rules:\n  - name: r\n    key: [user]\n    limits: [1/1m]\n    overrides:\n      # the first\n      - {match: {user: x}, limits: unlimited}\n      - match: {user: y}\n        limits: [2/1m]\n",
		"overrides in flow":  "rules:\n  - {name: r, key: [user], limits: [1/1m], overrides: [{match: {user: ü}, limits: unlimited}]}\n",
		"other letters":      "# für\nrules:\n  - {name: r, owner: \"ÄÖÜ\", key: [user], overrides: [{match: {user: x}, limits: unlimited}], limits: [1/1m]}\n",
	} {
		edited, err := admin.AddTo(text, "r", hostile, "5/1h")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		doc, err := rules.Parse("edited", []byte(edited))
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, edited)
			continue
		}
		for i := range doc.Rules {
			if r := &doc.Rules[i]; r.Name == "r" && (r.Overrides[0].Match.Attributes["user"][0] != hostile["user"] || r.Overrides[0].Limits.Limits[0].Rate.String() != "5/1h") {
				t.Errorf("%s: %+v\n%s", name, r.Overrides[0], edited)
			}
		}
		if twice, err := admin.AddTo(edited, "r", map[string]string{"user": "u2"}, "unlimited"); err != nil || !strings.Contains(twice, "u2") {
			t.Errorf("%s: again: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"an empty list":   "rules:\n  - name: r\n    key: [user]\n    limits: [1/1m]\n    overrides: []\n",
		"a folded name":   "rules:\n  - key: [user]\n    limits: [1/1m]\n    name: >-\n      r\n",
		"a tab before it": "rules: [ \n {name: r, key: [user], limits: [1/1m], overrides: []}]",
	} {
		if edited, err := admin.AddTo(text, "r", hostile, "5/1h"); err == nil {
			if _, err := rules.Parse("edited", []byte(edited)); err != nil {
				t.Errorf("%s: %v\n%s", name, err, edited)
			}
		} else if !strings.Contains(err.Error(), "cannot add to a document") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
