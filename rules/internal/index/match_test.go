package index_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

func build(t rapid.TB, w *naive.Rules) *index.Index {
	items, allow, deny, err := w.Items()
	if err != nil {
		t.Fatal(err)
	}
	return index.Build(items, allow, deny, nil)
}

// differ returns how the index and the naive matcher disagree about a request.
func differ(x *index.Index, w *naive.Rules, call *penstock.Call, m *index.Match) string {
	now := penstock.InstantOf(naive.Moment)
	x.Match(call, now, m)
	got := naive.Verdict{Denied: m.Denied, Allowed: m.Allowed}
	for _, f := range m.Found {
		got.Rules = append(got.Rules, f.Item)
		got.Overrides = append(got.Overrides, f.Override)
		got.Keys = append(got.Keys, append([]string{}, f.Key...))
	}
	for _, f := range m.Failed {
		match := &w.Rules[f.Item].Match
		if f.Override != index.NoOverride {
			match = &w.Rules[f.Item].Overrides[f.Override].Match
		}
		got.Refused = got.Refused || match.OnError == naive.Denies
	}
	return cmp.Diff(w.Decide(call, now), got)
}

func checkRandom(t *rapid.T) {
	w := naive.Draw(t)
	x := build(t, w)
	var m index.Match
	for range 20 {
		call := naive.DrawCall(t)
		if diff := differ(x, w, call, &m); diff != "" {
			t.Fatalf("%+v: naive and indexed (-, +):\n%s", call, diff)
		}
	}
}

func TestIndexAgreesWithNaive(t *testing.T) { rapid.Check(t, checkRandom) }

// Items that ignore nothing do not pay for path forms, and those that ignore the same differences share one.
func TestPathFormsAreLaidOutOnce(t *testing.T) {
	for want, ignored := range [][]urlform.Ignore{{0, 0}, {0, urlform.Case, urlform.Case}, {urlform.Case, urlform.TrailingSlash, 0}} {
		var items []index.Item
		for _, ignore := range ignored {
			items = append(items, index.Item{Conditions: index.Conditions{Path: pattern.Path{Text: "/a", Ignore: ignore}}})
		}
		if got := index.Build(items, nil, nil, nil).PathForms(); got != want {
			t.Errorf("%v: %d forms, want %d", ignored, got, want)
		}
	}
}
