package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

// Whether anything expires is computed once for the rules, and again when they change.
func TestExpiryOnTheRealClock(t *testing.T) {
	const (
		past   = "2020-01-01T00:00:00Z"
		future = "2100-01-01T00:00:00Z"
	)
	rule := func(expires string) string {
		return fmt.Sprintf(`rules: [{name: all, key: [], limits: [{rate: 0/1h, algorithm: fixed_window}]%s}]`, expires)
	}
	s := &testEngine{rules: compile(t, rule(""))}
	e := newEngine(t, "", engine.Options{Rules: s})
	for _, test := range []struct{ expires, want string }{
		{"", "over_limit"},
		{", match: {domain: other}", "no_rule"},
		{", expires_at: " + past, "no_rule"},
		{"", "over_limit"},
		{", expires_at: " + future, "over_limit"},
		{", overrides: [{match: {attributes: {user: u}}, limits: unlimited, expires_at: " + past + "}]", "over_limit"},
		{", overrides: [{match: {attributes: {user: u}}, limits: unlimited, expires_at: " + future + "}]", "no_rule"},
	} {
		s.rules = compile(t, rule(test.expires))
		var v penstock.Verdict
		before := penstock.InstantOf(time.Now())
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("user", "u")}, &v); err != nil {
			t.Fatal(err)
		}
		if v.Reason.String() != test.want {
			t.Errorf("with %q: %v, not %s", test.expires, v.Reason, test.want)
		}
		if tolerance := penstock.Instant(time.Hour.Microseconds()); v.Now < before-tolerance || v.Now > before+tolerance {
			t.Errorf("with %q: decided at %v, which is not now", test.expires, v.Now)
		}
	}
}
