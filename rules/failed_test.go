package rules

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
)

// An expression that fails for a call is told with its rule: the rule does not apply, and an
// override leaves the rule's own limits.
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
		{"x", "eve", "sound() override-fails()", "fails override-fails override-fails"},
		{"x", "bob", "sound() override-fails[1]()", "fails override-fails"},
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

// Lists belong to no rule. What fails in them holds for nobody.
func TestListsThatFailAreNoRules(t *testing.T) {
	fails, err := compileExpression("int(plan) > 3", []string{"plan"})
	if err != nil {
		t.Fatal(err)
	}
	entry := []listEntry{{conditions{when: fails}}}
	x := newIndex([]Rule{{Name: "a"}}, entry, entry)
	var m Match
	if x.match(callOf("", "plan", "x"), 1, &m); told(&m) != "a()" || len(m.Failed) != 0 {
		t.Errorf("%q, failed %+v", told(&m), m.Failed)
	}
	if x.match(callOf("", "plan", "4"), 1, &m); !m.Denied {
		t.Errorf("%q where the list holds", told(&m))
	}
}

// An evaluation that panics is a failure like any other, and the next call is evaluated.
func TestExpressionsThatPanicFail(t *testing.T) {
	env, err := cel.NewEnv(
		cel.Variable("plan", cel.StringType),
		cel.Function("explode", cel.Overload("explode_string", []*cel.Type{cel.StringType}, cel.BoolType,
			cel.UnaryBinding(func(v celref.Val) celref.Val {
				if v == types.String("x") {
					panic("exploded")
				}
				return types.True
			}))))
	if err != nil {
		t.Fatal(err)
	}
	panics, err := (&language{env: env}).compile("explode(plan)")
	if err != nil {
		t.Fatal(err)
	}
	x := newIndex([]Rule{
		{Name: "panics", conditions: conditions{when: panics}},
		{Name: "override-panics", Overrides: []Override{{conditions: conditions{when: panics}}}},
		{Name: "other"},
	}, nil, nil)
	var m Match
	x.match(callOf("", "plan", "x"), 1, &m)
	if got := told(&m) + "; " + toldFailed(t, &m); got != "override-panics() other(); panics override-panics" {
		t.Error(got)
	}
	for _, f := range m.Failed {
		if !strings.Contains(fmt.Sprint(f.Err), "exploded") {
			t.Errorf("%s: %v", f.Rule.Name, f.Err)
		}
	}
	if x.match(callOf("", "plan", "y"), 1, &m); told(&m) != "panics() override-panics[0]() other()" || len(m.Failed) != 0 {
		t.Errorf("afterwards %q, failed %+v", told(&m), m.Failed)
	}
}
