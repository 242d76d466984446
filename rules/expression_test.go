package rules

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

func callOf(domain string, pairs ...string) *penstock.Call {
	c := &penstock.Call{Domain: domain}
	for i := 0; i < len(pairs); i += 2 {
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}

func valuesOf(call *penstock.Call) *callValues {
	v := &callValues{}
	v.lay(call, newSlots())
	return v
}

func compileExpression(text string, attributes []string) (*expression, error) {
	l, err := newLanguage(attributes)
	if err != nil {
		return nil, err
	}
	return l.compile(text)
}

func TestExpressions(t *testing.T) {
	call := callOf("", "user", "alice", "path", "//a/%62", "method", "GET", "ip", "10.0.0.1", "undeclared", "x")
	for text, want := range map[string]bool{
		`user == "alice"`:                         true,
		`user != "" && !path.endsWith("/health")`: true,
		`path == "/a/b"`:                          true, // normalised
		`domain == "default"`:                     true,
		`method == "GET" && ip.startsWith("10.")`: true,
		`host == "" && plan == ""`:                true, // missing
		`path.matches("^/[a-z]+/b$")`:             true,
		`plan in ["", "free"]`:                    true,
		`["alice", "bob"].exists(u, u == user)`:   true,
		`user.size() == 5`:                        true,
		`user == "bob"`:                           false,
		"true &&\n  user\n  != 'alice'":           false,
		`int("7") == 7`:                           true,
		`x_y1 == ""`:                              true,
	} {
		e, err := compileExpression(text, []string{"user", "plan", "x-user", "in", "int", "x_y1", "7up", "user", "ip"})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.holds(valuesOf(call)); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestExpressionsFail(t *testing.T) {
	for text, want := range map[string]string{
		`int(plan) > 1`:             "",
		`!(int(plan) > 1)`:          "",
		`plan.split(",")[0] == "a"`: "undeclared",
		`["a"][int("5")] == plan`:   "index",
		`1 / int(plan.size()) == 1`: "zero",
	} {
		e, err := compileExpression(text, []string{"plan"})
		if want == "undeclared" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want it refused", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.holds(valuesOf(callOf("", "path", "/a"))); got || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want a failure that says %q", text, got, err, want)
		}
		x := newIndex([]Rule{{conditions: conditions{when: e}}}, nil, nil)
		var m Match
		if x.match(callOf("", "path", "/a"), 1, &m); len(m.Rules) != 1 || len(m.Failed) != 1 {
			t.Errorf("%s fails and its rule does not match", text)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for _, test := range []struct {
		text         string
		line, column int
		says         string
	}{
		{"usr == 'a'", 1, 1, "usr"},
		{"user == 'a' &&\n  usr == 'b'", 2, 3, "usr"},
		{"user ==", 1, 8, "Syntax error"},
		{"", 1, 1, ""},
		{"user", 1, 1, "must be true or false"},
		{"1 + 1", 1, 1, "must be true or false"},
		{"user == 1", 1, 6, "no matching overload"},
		{"'é' == user && usr == ''", 1, 16, "usr"},
		{"path.matches('(')", 1, 14, "no regular expression"},
		{"user-agent == 'x'", 1, 6, "agent"},
		{strings.Repeat("!", 5000) + "true", 1, 1, "at most 4096"},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), 1, 0, ""},
		{"[" + strings.Repeat("1,", 1500) + "1] == []", 1, 0, ""},
	} {
		_, err := compileExpression(test.text, []string{"user"})
		var e *expressionError
		if !errors.As(err, &e) || len(e.flaws) == 0 {
			t.Errorf("%.40q: %v", test.text, err)
			continue
		}
		f := e.flaws[0]
		if test.column != 0 && (f.line != test.line || f.column != test.column) || !strings.Contains(f.problem, test.says) {
			t.Errorf("%.40q: %d:%d %s; want %d:%d %q", test.text, f.line, f.column, f.problem, test.line, test.column, test.says)
		}
	}
	_, err := compileExpression("a == '' && b == ''", nil)
	if err == nil || !strings.Contains(err.Error(), "1:1:") || !strings.Contains(err.Error(), "1:12:") {
		t.Errorf("two flaws are told as %v", err)
	}
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{`user != ""`, `path.matches("^/a")`, "user ==", `int(user) / 0 == 1`, `[1].map(x, x)[3] == 1`, "'\\x", `{"a": user}["b"] == ""`, `timestamp(user) < timestamp("2020-01-01T00:00:00Z")`} {
		f.Add(seed, "alice")
	}
	l, err := newLanguage([]string{"user"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, user string) {
		e, err := l.compile(text)
		var flaws *expressionError
		switch {
		case err == nil:
			if holds, err := e.holds(valuesOf(callOf("", "user", user))); holds && err != nil {
				t.Errorf("%q holds and fails: %v", text, err)
			}
		case !errors.As(err, &flaws) || len(flaws.flaws) == 0:
			t.Errorf("%q: %v has no place", text, err)
		default:
			for _, f := range flaws.flaws {
				if f.line < 1 || f.column < 1 || f.line > strings.Count(text, "\n")+1 {
					t.Errorf("%q: flaw at %d:%d", text, f.line, f.column)
				}
			}
		}
	})
}
