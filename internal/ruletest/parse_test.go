package ruletest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// Each text has one error, reported with its place and a suggested fix.
func TestMistakes(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "1:1: the text is empty"},
		{"no YAML", "tests: [", "1:8: not YAML: the bracket [ is not closed"},
		{"no tests", "rules: a.yaml", "1:1: tests is missing, as in tests: [{name: …, steps: […]}]"},
		{"none of them", "tests: []", "1:8: tests has 0 items, must be from 1 to 10000"},
		{"unknown field", "tests: [{name: a, stpes: [{call: {}}], steps: [{call: {}}]}]", "1:19: unknown field stpes, did you mean steps?"},
		{"twice", "tests: [{name: a, steps: [{call: {cost: 1, cost: 2}}]}]", "1:44: cost is given twice, the first is at 1:35"},
		{"name taken", "tests:\n- {name: a, steps: [{call: {}}]}\n- {name: a, steps: [{call: {}}]}", `3:10: the name "a" is taken, by test 1`},
		{"nothing", step(`{at: 1s}`), "1:27: the step does nothing, give one of call, calls, settle, release, renew"},
		{"too much", step(`{call: {}, calls: [{}]}`), "1:27: the step does several things, give one of call, calls, settle, release, renew"},
		{"no calls", step(`{calls: []}`), "1:35: calls has 0 items, must be from 1 to 1000"},
		{"times", step(`{call: {}, times: 0}`), "1:45: times 0 must be from 1 to 1000000"},
		{"every", step(`{call: {}, every: 1s}`), "1:45: every without times, say how many times"},
		{"times of what", step(`{call: {as: a}}, {release: {reservation: a}, times: 2}`), "1:79: times is for calls, leave it out"},
		{"no duration", step(`{at: 1.5s, call: {}}`), "1:32: 1.5s is not made of whole numbers, write it in a smaller unit, as in 1h30m"},
		{"no unit", step(`{after: 5, call: {}}`), "1:36: 5 has no unit, write for example 5s"},
		{"no date", step(`{at: 2026-01-01, call: {}}`), `1:32: at: "2026-01-01" is not a date with time and zone, for example 2026-01-31T09:00:00Z`},
		{"both", step(`{at: 1s, after: 1s, call: {}}`), "1:43: both at and after say when, leave one out"},
		{"back", step(`{at: 2s, call: {}}, {at: 1s, call: {}}`), "1:52: time goes back from 2s to 1s, order the steps by time"},
		{"before the start", step(`{at: 2020-01-01T00:00:00Z, call: {}}`), "1:32: time goes back from 0s to before the start, order the steps by time"},
		{"far", step(`{at: 90000d, call: {}}`), "1:32: the step lies too far ahead, stay before 2112"},
		{"further", step(`{call: {}, times: 1000000, every: 100000d}`), "1:61: the step lies too far ahead, stay before 2112"},
		{"too far a date", step(`{at: 2200-01-01T00:00:00Z, call: {}}`), "1:32: the step lies too far ahead, stay before 2112"},
		{"start", "start: 1960-01-01T00:00:00Z\ntests: [{name: a, steps: [{call: {}}]}]", "1:8: start 1960-01-01T00:00:00Z cannot be represented, choose a date from 1970 to 2112"},
		{"own start", "tests: [{name: a, start: 1960-01-01T00:00:00Z, steps: [{call: {}}]}]", "1:26: start 1960-01-01T00:00:00Z cannot be represented, choose a date from 1970 to 2112"},
		{"unknown reservation", step(`{release: {reservation: a}}`), `1:51: no call before has the reservation "a", give that call as: a`},
		{"same reservation", step(`{call: {as: a}}, {call: {as: a}}`), `1:56: the name "a" is taken, by a call before`},
		{"many of a name", step(`{call: {as: a}, times: 2}`), `1:39: 2 calls cannot all be called "a", write them under calls`},
		{"settle", step(`{call: {as: a}}, {settle: {reservation: a}}`), "1:53: settle needs the true cost, give either cost or response"},
		{"cost", step(`{call: {cost: -1}}`), "1:41: cost: \"-1\" is not a whole number, 0 or more"},
		{"attribute", step(`{call: {attributes: {"a b": c}}}`), `1:48: invalid attribute name "a b", use up to 128 letters, digits, - and _`},
		{"reason", step(`{call: {}, expect: {reason: nope}}`), `1:55: reason: unknown reason "nope"`},
		{"never", step(`{call: {}, expect: {reset_after: never}}`), `1:60: invalid duration "never", write a number and a unit, as in 30s or 1h30m`},
		{"truth", step(`{call: {}, expect: {allowed: 1}}`), `1:56: allowed must be true or false, not "1"`},
		{"allowed and passed", step(`{call: {}, expect: {allowed: true, passed: 1}}`), "1:70: both allowed and passed, allowed is for every call, passed counts them: leave one out"},
		{"passed", step(`{call: {as: a}}, {release: {reservation: a}, expect: {passed: 1}}`), "1:89: passed is for calls, write allowed"},
		{"too many calls", step(strings.Repeat(`{call: {}, times: 1000000}, `, 11)), "1:8: the tests make 11000000 calls, at most 10000000, write several files"},
	} {
		_, err := Parse("t", []byte(test.text))
		problems, ok := errors.AsType[rules.Problems](err)
		if !ok || len(problems) != 1 || !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%s: got %v, want one mistake", test.name, err)
			continue
		}
		if got, _, _ := strings.Cut(problems[0].String(), "\n"); !strings.HasPrefix(got, "t:"+test.want) {
			t.Errorf("%s: got\n%s\nwant\nt:%s", test.name, got, test.want)
		}
	}
}

func step(text string) string { return "tests: [{name: a, steps: [" + text + "]}]" }

func TestTooLong(t *testing.T) {
	if _, err := Parse("t", make([]byte, MaxFixture+1)); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// Every error is reported, not only the first.
func TestAllMistakes(t *testing.T) {
	_, err := Parse("t", []byte("tests:\n- {name: a, steps: [{at: x, call: {}}]}\n- {name: a, steps: [{}]}\nfoo: 1\n"))
	if problems, _ := errors.AsType[rules.Problems](err); len(problems) != 4 {
		t.Errorf("got %v", err)
	}
}

// JSON is read too.
func TestJSON(t *testing.T) {
	f, err := Parse("t", []byte(`{"rules": "r.yaml", "tests": [{"name": "a", "steps": [{"at": "1s", "call": {"attributes": {"user": "ann"}}, "expect": {"allowed": true}}]}]}`))
	if err != nil || f.Rules != "r.yaml" || f.Tests[0].Steps[0].Call.Attributes["user"] != "ann" {
		t.Errorf("got %+v, %v", f, err)
	}
}

// FuzzParse checks that no text causes harm, and that every fixture that is read can be run.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("../../examples/tests/*.yaml")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(step(`{call: {}, times: 2, every: 1s}`)))
	snapshot, _, err := rules.CompileFiles([]rules.File{{Data: []byte(someRules)}}, rules.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fixture, err := Parse("t", text)
		if err != nil {
			if !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("got %v", err)
			}
			return
		}
		var calls int64
		for i := range fixture.Tests {
			for j := range fixture.Tests[i].Steps {
				step := &fixture.Tests[i].Steps[j]
				calls += step.times() * int64(len(step.calls))
			}
		}
		if calls > 1000 {
			return
		}
		results, err := fixture.Run(t.Context(), Options{Rules: snapshot, NewStore: newStore})
		if err != nil {
			t.Error(err)
		}
		for _, r := range results {
			for i := range r.Failures {
				_ = r.Failures[i].String()
			}
		}
	})
}
