package expr

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// boundedExpressions are expressions that clients can make expensive, with how much of a value they read.
var boundedExpressions = map[string]int{
	`user == "alice"`:                                                 8192,
	`user == plan && user < plan`:                                     8192,
	`path.matches("^/a/[a-z]+$")`:                                     8192,
	`(user + plan + path).matches("(a|b)*c")`:                         8192,
	`path.matches("` + strings.Repeat("a.*", 40) + `")`:               4096,
	`path.matches("` + strings.Repeat("(a|b)*", 20) + `")`:            4096,
	`[user, plan, path].exists(x, x.matches("(x+x+)+y"))`:             8192,
	`path.contains(user)`:                                             2048,
	`(user + user).contains(plan + plan)`:                             1024,
	`[user, plan].map(x, x + x).exists(x, x.contains("aab"))`:         8192,
	`int(plan) > 3 && string(bytes(user)) == plan`:                    8192,
	`["a", "b"].exists(u, [user, plan].exists(v, v.startsWith(u)))`:   8192,
	`path.matches("` + strings.Repeat("a?", 60) + `") || user == "x"`: 4096,
}

// However long the values are that a client sends, evaluating an expression costs no more than estimated, and the
// estimate is within the bound. CEL counts the cost, regular expressions in steps.
func TestWorkIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l, err := NewLanguage([]string{"user", "plan"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, reads := range boundedExpressions {
		a, issues := l.env.Compile(text)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		bound, err := boundWork(l.env, a)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if bound.maxInput != reads {
			t.Errorf("%.60s reads %d bytes of a value; want %d", text, bound.maxInput, reads)
		}
		estimate, err := l.env.EstimateCost(a, bound)
		if err != nil || estimate.Max > maxExpressionCost {
			t.Errorf("%s: estimated at %+v, %v", text, estimate, err)
		}
		program, err := l.env.Program(a, cel.CostTracking(bound), cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			call := map[string]any{}
			for _, name := range l.variables {
				piece := []string{"a", "x", "ab", "/", "7", "é", "aab"}[r.IntN(7)]
				call[name] = strings.Repeat(piece, r.IntN(bound.maxInput/len(piece)+1))
			}
			_, details, _ := program.Eval(call)
			if cost := details.ActualCost(); cost == nil || *cost > estimate.Max {
				t.Errorf("%s: cost %v, estimated at %d", text, cost, estimate.Max)
			}
		}
	}
}

// A regular expression takes at most one step per instruction and byte. An accepted one takes no more than half a
// million.
func TestRegexStepsAreBounded(t *testing.T) {
	most := 0
	for n := 1; n < 300; n++ {
		pattern := strings.Repeat("a?", n)
		e, err := compileExpression(fmt.Sprintf("path.matches(%q)", pattern), nil)
		size, sizeErr := types.RegexProgramSize(pattern)
		if sizeErr != nil {
			t.Fatal(sizeErr)
		}
		if err != nil {
			if size <= maxRegexProgram {
				t.Errorf("%d instructions are refused: %v", size, err)
			}
			continue
		}
		most = max(most, size*e.maxInput)
	}
	if most > maxExpressionCost*regexStepsPerUnit || most < 100_000 {
		t.Errorf("up to %d steps", most)
	}
}

// A value that is too long fails before a regular expression sees any of it.
func TestLongValuesAreNotRead(t *testing.T) {
	e, err := compileExpression(`path.contains(user) || host.matches("x")`, []string{"user"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		length int
		says   string
	}{
		{e.maxInput, ""},
		{e.maxInput + 1, fmt.Sprintf("host has %d bytes; this expression reads at most %d", e.maxInput+1, e.maxInput)},
	} {
		_, err := e.Holds(scope("user", "u", "host", strings.Repeat("y", test.length)))
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%d bytes: %v; want %q", test.length, err, test.says)
		}
	}
}

func TestExpressionsThatCostTooMuch(t *testing.T) {
	nine := "[1,2,3,4,5,6,7,8,9]"
	for text, says := range map[string]string{
		`path.matches("` + strings.Repeat("a.*", 253) + `")`: "1:14: the regular expression compiles to",
		`path.matches("(a{1,50}){1,3}")`:                     "instructions; at most 128",
		`path.matches(user)`:                                 "1:14: the argument of matches must be a literal",
		`matches(path, "^" + user)`:                          "must be a literal",
		`["^/a", "^/b"].exists(p, path.matches(p))`:          "must be a literal",
		`string(int(user)).matches("7")`:                     "has no bound",
		nine + `.all(a, ` + nine + `.all(b, ` + nine + `.all(c, ` + nine + `.all(d, ` + nine + `.all(e, a+b+c+d+e > 0)))))`: "units for attributes of 1024 bytes; at most 65536",
		`(user + user + user + user).contains(user + user + user + user)`:                                                   "units for attributes",
	} {
		if _, err := compileExpression(text, []string{"user"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v; want %q", text, err, says)
		}
	}
}
