package ruletest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func newStore() (Store, error) { return memstore.New(memstore.Options{}) }

func compile(t *testing.T, name, text string) *rules.Snapshot {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: name, Data: []byte(text)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// runText runs tests written in YAML against rules.
func runText(t *testing.T, snapshot *rules.Snapshot, text string) []Result {
	t.Helper()
	fixture, err := Parse("tests.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	results, err := fixture.Run(t.Context(), Options{Rules: snapshot, NewStore: newStore})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// Every example of rules has tests, and passes them.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(examples) < 5 {
		t.Fatalf("examples: %v, %v", examples, err)
	}
	for _, path := range examples {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tests, err := os.ReadFile(filepath.Join("../../examples/tests", name))
			if err != nil {
				t.Fatal(err)
			}
			expectGood(t, runText(t, compile(t, name, string(text)), string(tests)))
		})
	}
}

// The output in docs/how-to/rules-testing.md is current.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/rules-testing.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	about := []string{"login-protection", "api-with-plans", "llm-tokens"}
	if len(blocks) != len(about) {
		t.Fatalf("%d examples, want %d", len(blocks), len(about))
	}
	for i, name := range about {
		text, err := os.ReadFile("../../examples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		expectGood(t, runText(t, compile(t, name, string(text)), blocks[i][1]))
	}
}

// expectGood fails if anything is not as expected.
func expectGood(t *testing.T, results []Result) {
	t.Helper()
	for _, r := range results {
		if r.Calls == 0 {
			t.Errorf("%s: no calls", r.Name)
		}
		for i := range r.Failures {
			t.Errorf("%s: %v", r.Name, &r.Failures[i])
		}
	}
}

const someRules = `
attributes: {n: {header: N}}
rules:
  - name: per-user
    key: [user]
    limits: [{rate: 2/10s, algorithm: fixed_window}]
    dedup: {ttl: 5s, replay_budget: 100%}
  - name: banning
    match: {ban: "yes"}
    key: [user]
    limits: [{rate: 1/1m, algorithm: fixed_window}]
    penalty: {after: 1, within: 1m, bans: [1m]}
  - name: waiting
    match: {wait: "yes"}
    key: [user]
    limits: [{rate: 1/s, queue: 5, algorithm: leaky_bucket}]
  - name: tried
    key: [user]
    limits: [{rate: 1/10s, algorithm: fixed_window}]
    mode: shadow
  - name: broken
    match: {when: int(n) > 1, on_error: skip}
    key: []
    limits: [1/1m]
lists:
  deny: [{user: mallory}]
`

// wrong has, for every field of an expectation, steps of which the last one fails, and the resulting difference.
var wrong = map[string]struct{ steps, want, got string }{
	"allowed":     {`[{call: {}, expect: {allowed: false}}]`, "false", "true"},
	"passed":      {`[{call: {}, times: 3, expect: {passed: 3}}]`, "3", "2"},
	"reason":      {`[{call: {}, expect: {reason: no_rule}}]`, "no_rule", "ok"},
	"rule":        {`[{call: {attributes: {user: mallory}}, expect: {rule: tried}}]`, "tried", "none"},
	"limit":       {`[{call: {}, expect: {limit: 3}}]`, "3", "2"},
	"used":        {`[{call: {cost: 2}, expect: {used: 1}}]`, "1", "2"},
	"remaining":   {`[{call: {}, expect: {remaining: 0}}]`, "0", "1"},
	"retry_after": {`[{call: {cost: 2}}, {after: 1500ms, call: {}, expect: {retry_after: 8s}}]`, "8s", "8s500ms"},
	"reset_after": {`[{call: {}, expect: {reset_after: 1m}}]`, "1m", "10s"},
	"delay":       {`[{call: {attributes: {wait: "yes"}}}, {call: {attributes: {wait: "yes"}}, expect: {delay: 0s}}]`, "0s", "1s"},
	"duplicate":   {`[{call: {id: a}}, {call: {id: a}, expect: {duplicate: false}}]`, "false", "true"},
	"banned_for":  {`[{call: {attributes: {ban: "yes"}}}, {call: {attributes: {ban: "yes"}}, expect: {banned_for: 2m}}]`, "2m", "1m"},
	"would_deny":  {`[{call: {}}, {call: {}, expect: {would_deny: []}}]`, "[]", "[tried]"},
	"error":       {`[{call: {as: a}}, {release: {reservation: a}, expect: {error: something}}]`, `"something"`, "nothing was reserved as a"},

	"limits policy":      {`[{call: {}, expect: {limits: [{policy: other}]}}]`, "to apply", "[per-user tried]"},
	"limits allowed":     {`[{call: {}, expect: {limits: [{policy: tried, allowed: false}]}}]`, "false", "true"},
	"limits shadow":      {`[{call: {}, expect: {limits: [{policy: per-user, shadow: true}]}}]`, "true", "false"},
	"limits banned":      {`[{call: {}, expect: {limits: [{policy: per-user, banned: true}]}}]`, "true", "false"},
	"limits limit":       {`[{call: {}, expect: {limits: [{policy: per-user, limit: 1}]}}]`, "1", "2"},
	"limits used":        {`[{call: {}, expect: {limits: [{policy: per-user, used: 0}]}}]`, "0", "1"},
	"limits remaining":   {`[{call: {}, expect: {limits: [{policy: tried, remaining: 1}]}}]`, "1", "0"},
	"limits retry_after": {`[{call: {cost: 3}, expect: {limits: [{policy: per-user, retry_after: 1s}]}}]`, "1s", "never"},
	"limits reset_after": {`[{call: {}, expect: {limits: [{policy: per-user, reset_after: 0s}]}}]`, "0s", "10s"},
	"limits delay":       {`[{call: {}, expect: {limits: [{policy: per-user, delay: 1s}]}}]`, "1s", "0s"},
}

func TestWrongExpectationsFail(t *testing.T) {
	snapshot := compile(t, "rules.yaml", someRules)
	fields := append(fieldsOf(reflect.TypeFor[Expectation](), ""), fieldsOf(reflect.TypeFor[LimitExpectation](), "limits ")...)
	for _, field := range fields {
		if field == "limits" {
			continue // those of LimitExpectation
		}
		test, ok := wrong[field]
		if !ok {
			t.Errorf("nothing shows that a wrong %s fails", field)
			continue
		}
		results := runText(t, snapshot, "tests: [{name: wrong, with: {attributes: {user: ann}}, steps: "+test.steps+"}]")
		if len(results[0].Failures) != 1 || len(results[0].Failures[0].Differences) != 1 {
			t.Errorf("%s: got %v, want one difference", field, results[0].Failures)
			continue
		}
		d := results[0].Failures[0].Differences[0]
		if name := strings.Fields(field); !strings.HasSuffix(d.Field, name[len(name)-1]) || d.Want != test.want || d.Got != test.got {
			t.Errorf("%s: got %q: expected %q, got %q", field, d.Field, d.Want, d.Got)
		}
	}
}

func fieldsOf(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("rules"), ","); name != "" {
			names = append(names, prefix+name)
		}
	}
	return names
}

// The output of a failure.
func TestFailure(t *testing.T) {
	results := runText(t, compile(t, "rules.yaml", someRules), `
tests:
  - name: three in ten seconds
    with: {attributes: {user: ann, n: x}}
    steps:
      - call: {}
        times: 3
        every: 1s
        expect: {allowed: true, reason: ok}
`)
	if len(results) != 1 || results[0].Calls != 3 || len(results[0].Failures) != 1 {
		t.Fatalf("got %+v", results)
	}
	want := `tests.yaml:9:27: not as expected: call 3 of 3 at 2s
            expect: {allowed: true, reason: ok}
                              ^
  allowed  expected true, got false
  reason   expected ok, got over_limit
  the call     n=x user=ann cost 1
  the verdict  denied, over_limit, by per-user
  the limit    per-user fixed_window: 2 of 2 used, 0 left, denies, retry after 8s, resets after 8s
  the limit    tried fixed_window: 1 of 1 used, 0 left, denies, retry after 8s, resets after 8s (shadow)
  failed       rule "broken": `
	if got := results[0].Failures[0].String(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Each test has its own time and state.
func TestTestsAreApart(t *testing.T) {
	expectGood(t, runText(t, compile(t, "rules.yaml", someRules), `
start: 2026-05-01T00:00:00+02:00
with: {attributes: {user: ann}}
tests:
  - name: first
    steps:
      - {call: {}, times: 2, expect: {allowed: true}}
      - {at: 2026-05-01T00:00:10+02:00, call: {}, times: 2, every: 5s, expect: {allowed: true}}
      - {call: {}, expect: {allowed: false}}
      - {after: 5s, call: {}, expect: {allowed: true}}
  - name: second
    start: 2026-05-01T00:00:01Z
    steps:
      - {call: {cost: 2}, expect: {allowed: true, reset_after: 9s}}
      - {call: {cost: 0}, expect: {remaining: 0}}
      - {call: {attributes: {user: bob}}, expect: {remaining: 1}}
`))
}

func TestRunChooses(t *testing.T) {
	fixture, err := Parse("tests.yaml", []byte(`tests: [{name: one, steps: [{call: {}}]}, {name: two, steps: [{call: {}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Rules: compile(t, "", someRules), NewStore: newStore, Run: regexp.MustCompile("^t")}
	results, err := fixture.Run(t.Context(), o)
	if err != nil || len(results) != 1 || results[0].Name != "two" {
		t.Errorf("got %v, %v", results, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fixture.Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", -1: "never", time.Microsecond: "1ms", 1500 * time.Millisecond: "1s500ms", 90 * time.Minute: "1h30m",
		49*time.Hour + time.Second: "2d1h1s",
	} {
		if got := showSpan(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
		var back Wait
		if err := back.UnmarshalText([]byte(want)); err != nil || showSpan(time.Duration(back)) != want {
			t.Errorf("%s: read as %v, %v", want, back, err)
		}
	}
}
