package expr

import (
	"errors"
	"strings"
	"testing"
)

// scope has the values of some variables, given as names and values.
func scope(pairs ...string) *Scope {
	values := constants{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return &Scope{Variables: values}
}

type constants map[string]string

func (c constants) Variable(name string) string { return c[name] }

func compileExpression(text string, attributes []string) (*Expression, error) {
	l, err := NewLanguage(attributes, nil)
	if err != nil {
		return nil, err
	}
	return l.Compile(text)
}

func TestExpressions(t *testing.T) {
	values := scope("domain", "default", "user", "alice", "path", "/a/b", "method", "GET", "ip", "10.0.0.1", "unknown name", "x")
	for text, want := range map[string]bool{
		`user == "alice"`:                         true,
		`user != "" && !path.endsWith("/health")`: true,
		`path == "/a/b"`:                          true,
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
		if got, err := e.Holds(values); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestExpressionsFail(t *testing.T) {
	for text, want := range map[string]string{
		`int(plan) > 1`:             "",
		`!(int(plan) > 1)`:          "",
		`plan.split(",")[0] == "a"`: "unknown name",
		`["a"][int("5")] == plan`:   "index",
		`1 / int(plan.size()) == 1`: "zero",
	} {
		e, err := compileExpression(text, []string{"plan"})
		if want == "unknown name" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want it refused", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Holds(scope("path", "/a")); got || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want a failure that says %q", text, got, err, want)
		}
	}
}

// Errors say in words what to write.
func TestErrorsInWords(t *testing.T) {
	for text, want := range map[string]string{
		`plan = "gold"`:               "use == to compare",
		`plan === "gold"`:             "use == to compare",
		`plan =~ "x"`:                 "use matches for a regular expression",
		`plan == "gold`:               "the closing quote is missing",
		`plan == “gold”`:              "use straight quotes",
		`plan == "a" and path == "b"`: "use && instead of and",
		`plan == "a" or path == "b"`:  "use || instead of or",
		`not plan`:                    "use ! instead of not",
		`plan == "a" | plan == "b"`:   "use || for or",
		`plan == "a" & plan == "b"`:   "use && for and",
		`plan <> "a"`:                 "use != for not equal",
		`plan in ("a", "b")`:          `write a list in brackets, as in method in ["GET", "HEAD"]`,
		`plan == "a" &&`:              `the expression ends after "&&", where a value is expected`,
		`  `:                          "the expression is empty",
		`(plan == "a"`:                "a closing ) is missing",
		`plan == "a")`:                "unexpected ): nothing is open that it could close",
		`plan == "a" path`:            `unexpected "path": an operator is missing before it, such as && or ||`,
		`plan == "a" ? true`:          "a choice needs both values, as in a ? b : c",
		`if plan == "a"`:              `"if" is a reserved word`,
		`!plan`:                       `! cannot be applied to string: compare first, as in user != ""`,
		`plan == null`:                `an attribute that a request lacks is ""`,
		`plan > 3`:                    `write "1" for text, or int(x) for a number`,
		`plan == #`:                   `unexpected character "#"`,
		`path.startswith("/")`:        `unknown name "startswith" (did you mean "startsWith"?)`,
		`plam == "a"`:                 `unknown name "plam" (did you mean "plan"?)`,
		`pla == "a"`:                  `unknown name "pla" (did you mean "plan"?)`, // not plas, which is misspelt itself
	} {
		l, err := NewLanguage([]string{"plan", "plas"}, []string{"plas"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Compile(text)
		var e *Error
		if !errors.As(err, &e) || len(e.Flaws) != 1 || !strings.Contains(e.Flaws[0].Problem, want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
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
		{"user ==", 1, 8, `ends after "=="`},
		{"", 1, 1, ""},
		{"user", 1, 1, "must be true or false"},
		{"1 + 1", 1, 1, "must be true or false"},
		{"user == 1", 1, 6, "== cannot be applied to string and int"},
		{"'é' == user && usr == ''", 1, 16, "usr"},
		{"path.matches('(')", 1, 14, "must be a regular expression"},
		{"user-agent == 'x'", 1, 6, "agent"},
		{strings.Repeat("!", 5000) + "true", 1, 1, "at most 4096"},
		{strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), 1, 0, ""},
		{"[" + strings.Repeat("1,", 1500) + "1] == []", 1, 0, ""},
	} {
		_, err := compileExpression(test.text, []string{"user"})
		var e *Error
		if !errors.As(err, &e) || len(e.Flaws) == 0 {
			t.Errorf("%.40q: %v", test.text, err)
			continue
		}
		f := e.Flaws[0]
		if test.column != 0 && (f.Line != test.line || f.Column != test.column) || !strings.Contains(f.Problem, test.says) {
			t.Errorf("%.40q: %d:%d %s; want %d:%d %q", test.text, f.Line, f.Column, f.Problem, test.line, test.column, test.says)
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
	l, err := NewLanguage([]string{"user"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, user string) {
		e, err := l.Compile(text)
		var flaws *Error
		switch {
		case err == nil:
			if holds, err := e.Holds(scope("user", user)); holds && err != nil {
				t.Errorf("%q holds and fails: %v", text, err)
			}
		case !errors.As(err, &flaws) || len(flaws.Flaws) == 0:
			t.Errorf("%q: %v has no place", text, err)
		default:
			for _, f := range flaws.Flaws {
				if f.Line < 1 || f.Column < 1 || f.Line > strings.Count(text, "\n")+1 {
					t.Errorf("%q: flaw at %d:%d", text, f.Line, f.Column)
				}
			}
		}
	})
}
