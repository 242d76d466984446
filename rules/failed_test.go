package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
)

// An expression that fails for a request is reported with its rule. The rule applies, and an override only if it
// cannot loosen the limits.
func TestMatchTellsWhatFailed(t *testing.T) {
	s := compiled(t, `
rules:
  - {name: sound, key: [], limits: [1/1m], match: {when: plan != "1"}}
  - {name: fails, key: [], limits: [1/1m], match: {when: int(plan) > 3}}
  - {name: override-fails, key: [], limits: [1/1m], overrides: [
      {match: {when: int(plan) > 4}, limits: unlimited},
      {match: {user: bob}, limits: [2/1m]},
      {match: {when: int(plan) > 5}, limits: unlimited}]}
  - {name: out-of-reach, key: [user], limits: [1/1m], match: {path: /a, when: int(plan) > 6}}
`)
	var m Match
	for _, test := range []struct {
		plan, user    string
		match, failed string
	}{
		{"9", "eve", "sound() fails() override-fails[0]()", ""},
		{"x", "eve", "sound() fails() override-fails()", "fails override-fails override-fails"},
		{"x", "bob", "sound() fails() override-fails[1]()", "fails override-fails"},
		{"2", "bob", "sound() override-fails[1]()", ""},
	} {
		s.Match(callOf("", "plan", test.plan, "user", test.user), 1, &m)
		if got := told(&m); got != test.match {
			t.Errorf("plan %s of %s: %q, want %q", test.plan, test.user, got, test.match)
		}
		if got := toldFailed(t, &m); got != test.failed {
			t.Errorf("plan %s of %s: failed are %q, want %q", test.plan, test.user, got, test.failed)
		}
	}
}

func toldFailed(t *testing.T, m *Match) string {
	var names []string
	for _, f := range m.Failed {
		if f.Err == nil {
			t.Errorf("%s failed without an error", f.Rule.Name)
		}
		names = append(names, f.Rule.Name)
	}
	return strings.Join(names, " ")
}

// Lists do not belong to a rule. An entry that fails denies, and never allows.
func TestListsThatFailAreNoRules(t *testing.T) {
	language, err := naive.NewLanguage()
	if err != nil {
		t.Fatal(err)
	}
	fails, err := language.Compile("int(plan) > 3")
	if err != nil {
		t.Fatal(err)
	}
	list := func(allow, deny []index.Conditions) *Snapshot {
		return indexed([]index.Item{{}}, allow, deny, func(int, int) OnError { return ErrorMatches })
	}
	allows := list([]index.Conditions{{When: fails}}, nil)
	denies := list(nil, []index.Conditions{{When: fails}})
	var m Match
	if allows.Match(callOf("", "plan", "x"), 1, &m); told(&m) != "rule-0()" || len(m.Failed) != 0 {
		t.Errorf("%q, failed %+v", told(&m), m.Failed)
	}
	if denies.Match(callOf("", "plan", "x"), 1, &m); !m.Denied || len(m.Failed) != 0 {
		t.Errorf("%q, failed %+v", told(&m), m.Failed)
	}
	if allows.Match(callOf("", "plan", "4"), 1, &m); !m.Allowed {
		t.Errorf("%q where the list holds", told(&m))
	}
}

// A client that makes an expression fail neither escapes a rule nor gets looser limits.
func TestOnError(t *testing.T) {
	s := compiled(t, `
rules:
  - {name: matches, key: [], limits: [1/1m], match: {when: int(plan) > 3}}
  - {name: says-match, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: match}}
  - {name: skips, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: skip}}
  - {name: other-path, key: [], limits: [1/1m], match: {path: /a, when: int(plan) > 3, on_error: deny}}
  - {name: lacks-key, key: [user], limits: [1/1m], match: {when: int(plan) > 3, on_error: deny}}
`)
	var m Match
	s.Match(callOf("", "plan", "x"), 1, &m)
	if got := told(&m) + "; " + toldFailed(t, &m); got != "matches() says-match(); matches says-match skips" || m.Refused != nil {
		t.Errorf("%q, refused %+v", got, m.Refused)
	}
	s.Match(callOf("", "plan", "x", "path", "/a"), 1, &m)
	if m.Refused == nil || m.Refused.Name != "other-path" {
		t.Errorf("refused %+v", m.Refused)
	}
	if s.Match(callOf("", "plan", "1", "path", "/a"), 1, &m); m.Refused != nil || len(m.Rules) != 0 {
		t.Errorf("%q, refused %+v", told(&m), m.Refused)
	}
}

func TestOverridesThatFailDoNotLoosen(t *testing.T) {
	const bucket = "{rate: 10/s, burst: 20, algorithm: token_bucket}"
	for _, test := range []struct {
		rule, override, onError string
		holds                   bool
	}{
		{"[100/1m]", "[10/1m]", "", true},
		{"[100/1m]", "[100/1m]", "", true},
		{"[100/1m]", "[101/1m]", "", false},
		{"[100/1m]", "unlimited", "", false},
		{"[100/1m]", "[10/1m]", ", on_error: skip", false},
		{"[100/1m]", "[10/1m]", ", on_error: deny", true},
		{"[100/1m]", "[1000/1m]", ", on_error: deny", true},
		{"[100/1m, 2000/1h]", "[10/1m]", "", true},
		{"[100/1m, 300/1h]", "[10/1m]", "", false},
		{"[" + bucket + "]", "[{rate: 5/s, burst: 20, algorithm: token_bucket}]", "", true},
		{"[" + bucket + "]", "[{rate: 5/s, burst: 21, algorithm: token_bucket}]", "", false},
		{"[" + bucket + "]", "[0/1m]", "", true},
		{"[{concurrent: 5, ttl: 30s, algorithm: concurrency}]", "[{concurrent: 2, ttl: 30s, algorithm: concurrency}]", "", true},
		{"[{concurrent: 5, ttl: 30s, algorithm: concurrency}]", "[{concurrent: 9, ttl: 30s, algorithm: concurrency}]", "", false},
		{"[100/1m]", "[{rate: 100/month, algorithm: fixed_window}]", "", false},
	} {
		s := compiled(t, fmt.Sprintf("rules: [{name: a, key: [], limits: %s, overrides: [{match: {when: int(plan) > 3%s}, limits: %s}]}]", test.rule, test.onError, test.override))
		var m Match
		s.Match(callOf("", "plan", "x"), 1, &m)
		refused := test.onError == ", on_error: deny"
		if len(m.Rules) != 1 || (m.Rules[0].Override == 0) != test.holds || len(m.Failed) != 1 || (m.Refused != nil) != refused {
			t.Errorf("%s, override %s%s: %q, refused %v", test.rule, test.override, test.onError, told(&m), m.Refused != nil)
		}
	}
}

func TestExplainTellsWhatFailed(t *testing.T) {
	s := compiled(t, `
rules:
  - {name: matches, key: [], limits: [1/1m], match: {when: int(plan) > 3}}
  - {name: skips, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: skip}}
  - {name: denies, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: deny}}
  - {name: tries, mode: shadow, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: deny}}
`)
	e := s.Explain(callOf("", "plan", "x"), 1, nil)
	for i, want := range []struct {
		matches, refuses bool
		says             string
	}{
		{true, false, "the expression int(plan) > 3 failed, so it counts as true: "},
		{false, false, "the expression int(plan) > 3 failed, so it does not hold: "},
		{true, true, "the expression int(plan) > 3 failed, so it denies the request: "},
		{true, false, "the expression int(plan) > 3 failed, so it denies the request: "},
	} {
		got := e.Rules[i]
		if says := got.Why + strings.Join(got.Failures, "; "); got.Matches != want.matches || got.Refuses != want.refuses || !strings.HasPrefix(says, want.says) {
			t.Errorf("%s: %+v", got.Rule.Name, got)
		}
	}
}

func TestBadOnError(t *testing.T) {
	for text, want := range map[string]string{
		`match: {on_error: skip}`:                       "on_error is for expressions, and there is no when",
		`match: {when: path != "", on_error: skpi}`:     `unknown on_error "skpi", did you mean skip?`,
		`match: {when: path != "", on_eror: skip}`:      "unknown field on_eror, did you mean on_error?",
		`match: {when: path != "", on_error: [a]}`:      "on_error must be",
		`match: {when: path.matches(host)}`:             "must be a literal",
		`match: {when: "path.matches(\"(a{99}){9}\")"}`: "instructions; at most 128",
	} {
		problems := problemsOf("rules: [{name: a, key: [], limits: [1/1m], " + text + "}]")
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: %q; want %q", text, problems, want)
		}
	}
}
