package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
)

var callOf = naive.Call

// compileWritten compiles texts as Compile would.
func compileWritten(t rapid.TB, w *naive.Rules) *Snapshot {
	items, allow, deny, err := w.Items()
	if err != nil {
		t.Fatal(err)
	}
	return indexed(items, allow, deny, func(item, override int) OnError {
		if override == NoOverride {
			return OnError(w.Rules[item].Match.OnError)
		}
		return OnError(w.Rules[item].Overrides[override].Match.OnError)
	})
}

// indexed returns a snapshot of rules that have conditions and a key, and nothing else.
func indexed(items []index.Item, allow, deny []index.Conditions, onError func(item, override int) OnError) *Snapshot {
	s := &Snapshot{all: make([]Rule, len(items)), allow: allow, deny: deny}
	for i := range items {
		item := &items[i]
		r := Rule{Name: fmt.Sprint("rule-", i), Expires: timeOf(item.Expires), item: item, onError: onError(i, NoOverride)}
		if item.Off {
			r.Mode = Off
		}
		for _, part := range item.Key {
			r.Key = append(r.Key, KeyPart(part))
		}
		for k := range item.Overrides {
			o := &item.Overrides[k]
			r.Overrides = append(r.Overrides, Override{Expires: timeOf(o.Expires), item: o, onError: onError(i, k)})
		}
		s.all[i] = r
	}
	s.index = index.Build(items, allow, deny, nil)
	return s
}

func timeOf(end penstock.Instant) time.Time {
	if end == 0 {
		return time.Time{}
	}
	return end.Time()
}

// differ returns how a snapshot and the naive matcher disagree about a request.
func differ(s *Snapshot, w *naive.Rules, call *penstock.Call, m *Match) string {
	now := penstock.InstantOf(naive.Moment)
	s.Match(call, now, m)
	got := naive.Verdict{Denied: m.Denied, Allowed: m.Allowed, Refused: m.Refused != nil}
	for _, r := range m.Rules {
		got.Rules = append(got.Rules, slices.IndexFunc(s.all, func(rule Rule) bool { return rule.Name == r.Rule.Name }))
		got.Overrides = append(got.Overrides, r.Override)
		got.Keys = append(got.Keys, append([]string{}, r.Key...))
	}
	return cmp.Diff(w.Decide(call, now), got)
}

func checkRandom(t *rapid.T) {
	w := naive.Draw(t)
	s := compileWritten(t, w)
	var m Match
	for range 20 {
		call := naive.DrawCall(t)
		if diff := differ(s, w, call, &m); diff != "" {
			t.Fatalf("%+v: naive and matched (-, +):\n%s", call, diff)
		}
		checkExplainedAt(t, s, call, penstock.InstantOf(naive.Moment), &m)
	}
}

// checkExplainedAt compares an explanation with a match.
func checkExplainedAt(t rapid.TB, s *Snapshot, call *penstock.Call, now penstock.Instant, m *Match) {
	e := s.Explain(call, now, nil)
	if e.Denied != m.Denied || e.Allowed != m.Allowed || len(e.Rules) != len(s.all) {
		t.Fatalf("%+v: explained as denied %v, allowed %v by %d rules; matched as %v, %v of %d", call, e.Denied, e.Allowed, len(e.Rules), m.Denied, m.Allowed, len(s.all))
	}
	var matched []MatchedRule
	refused := false
	for i, c := range e.Rules {
		if c.Rule != &s.all[i] || c.Matches != (c.Reason == "") || c.Matches != (c.Why == "") {
			t.Fatalf("%+v: rule %d explained as %+v", call, i, c)
		}
		refused = refused || c.Refuses
		if c.Matches {
			key := []string{}
			for _, a := range c.Key {
				key = append(key, a.Value)
			}
			matched = append(matched, MatchedRule{Rule: c.Rule, Override: c.Override, Key: key})
		}
	}
	if m.Denied || m.Allowed {
		return
	}
	if refused != (m.Refused != nil) {
		t.Fatalf("%+v: explained as refused %v, matched as %+v", call, refused, m)
	}
	if !slices.EqualFunc(matched, m.Rules, func(a, b MatchedRule) bool {
		return a.Rule == b.Rule && a.Override == b.Override && slices.Equal(a.Key, b.Key)
	}) {
		t.Fatalf("%+v: explained %+v, matched %+v", call, matched, m.Rules)
	}
}

func TestMatchAgreesWithNaive(t *testing.T) { rapid.Check(t, checkRandom) }

func FuzzMatch(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRandom)) }
