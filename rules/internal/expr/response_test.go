package expr

import (
	"strings"
	"testing"
	"time"
)

func responseLanguage(t *testing.T) *Language {
	t.Helper()
	l, err := NewResponseLanguage()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestExpressionsAboutAResponse(t *testing.T) {
	l := responseLanguage(t)
	response := &Response{Status: 401, Duration: 1500 * time.Millisecond, Header: func(name string) string {
		return map[string]string{"x-login": "failed", "x-tries": "3", "x-long": strings.Repeat("x", 1<<20)}[strings.ToLower(name)]
	}}
	for text, want := range map[string]bool{
		`status in [401, 403]`: true,
		`status >= 500`:        false,
		`status == 401 && header("X-Login") == "failed"`:    true,
		`header("x-absent") == ""`:                          true,
		`header("X-Login").matches("^fail")`:                true,
		`duration > duration("1s")`:                         true,
		`duration > duration("2s")`:                         false,
		`int(header("x-tries")) >= 3`:                       true,
		`["x-login", "x-tries"].exists(n, header(n) == "")`: false,
	} {
		e, err := l.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.HoldsFor(response); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`int(header("x-login")) > 1`, `header("x-long") != ""`, `1 / (status - 401) > 0`} {
		e, err := l.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.HoldsFor(response); got || err == nil {
			t.Errorf("%s: %v, %v; want a failure", text, got, err)
		}
	}
	without, err := l.Compile(`header("x") == ""`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := without.HoldsFor(&Response{Status: 200}); !got || err != nil {
		t.Errorf("without headers: %v, %v", got, err)
	}
}

func TestBadExpressionsAboutAResponse(t *testing.T) {
	l := responseLanguage(t)
	for text, says := range map[string]string{
		`status`:                           "must be true or false, as in status >= 500",
		`status == "401"`:                  "== cannot be applied to int and string",
		`user == "a"`:                      "user",
		`header == "x"`:                    "header",
		`header("a", "b") == ""`:           "header",
		`header(1) == ""`:                  "header cannot be applied to int",
		`duration > 5`:                     "> cannot be applied to duration and int",
		`duration > duration("a lot")`:     "invalid duration",
		`@response == @response`:           `unexpected character "@"`,
		`header("x").matches(header("y"))`: "must be a literal",
	} {
		if _, err := l.Compile(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}
