package envoyratelimit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const noon = penstock.Instant(1_767_268_800_000_000)

func at() penstock.Instant { return noon }

func newStore(t testing.TB) storage.FullStore {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// both returns a limiter for a file, and one for the rules it is converted to.
func both(t testing.TB, text string) (file, converted rls.Limiter, notes []string) {
	t.Helper()
	c, _, err := Load(file1(text), Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	file = newStand(t, text, testEngine{Store: newStore(t), Now: at})
	doc, notes := c.Convert()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: doc.YAML()}}, rules.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.YAML())
	}
	e, err := engine.New(engine.Options{Store: newStore(t), Rules: engine.Fixed(snapshot), Now: at})
	if err != nil {
		t.Fatal(err)
	}
	return file, &rls.RuleLimiter{Engine: e}, notes
}

func one(entries []penstock.Attribute) *rls.Request {
	return &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{{Entries: entries, Cost: 1}}}
}

// mentions reports whether all keys are somewhere in a tree.
func mentions(level []modelDescriptor, ask []penstock.Attribute) bool {
	known := map[string]bool{}
	var collect func([]modelDescriptor)
	collect = func(level []modelDescriptor) {
		for _, d := range level {
			known[d.key] = true
			collect(d.below)
		}
	}
	collect(level)
	return !slices.ContainsFunc(ask, func(a penstock.Attribute) bool { return !known[a.Name] })
}

// Converted rules answer as the file does, as long as every entry is known to some rule.
func TestConvertedAnswersAlike(t *testing.T) {
	g := &grower{
		Rand: rand.New(rand.NewPCG(3, 4)), keys: [][]string{{"a", "b"}, {"c", "e"}, {"f"}},
		values: []string{"", "x", "y", "x*", "*y", "*x*"},
	}
	asked := []string{"x", "y", "xy", "z", "yx"}
	compared, denied := 0, 0
	for range 80 {
		tree := g.grow(0)
		var text strings.Builder
		text.WriteString("domain: d\n")
		yaml(&text, tree, "")
		file, converted, notes := both(t, text.String())
		if len(notes) > 0 {
			continue
		}
		for range 100 {
			var ask []penstock.Attribute
			for _, keys := range g.keys[:1+g.IntN(3)] {
				ask = append(ask, penstock.Attribute{Name: pick(g.Rand, keys), Value: pick(g.Rand, asked)})
			}
			if !mentions(tree, ask) {
				continue
			}
			want, err := file.Limit(t.Context(), one(ask))
			if err != nil {
				t.Fatal(err)
			}
			got, err := converted.Limit(t.Context(), one(ask))
			if err != nil {
				t.Fatal(err)
			}
			if got.Allowed != want.Allowed || (got.Each[0].Told == nil) != (want.Each[0].Told == nil) {
				t.Fatalf("%v: got %+v, want %+v\n%s", ask, got.Each[0], want.Each[0], text.String())
			}
			compared++
			if !want.Allowed {
				denied++
			}
		}
	}
	if compared < 1500 || denied < 200 {
		t.Errorf("%d compared, %d of them denied: the test is not worth much", compared, denied)
	}
}

// Penstock's own algorithms and windows are imported.
func TestConvertedAlgorithms(t *testing.T) {
	file, converted, notes := both(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1, algorithm: token_bucket, burst: 3}}
  - {key: b, rate_limit: {unit: minute, unit_multiplier: 7, requests_per_unit: 2}}
  - {key: c, rate_limit: {unit: hour, requests_per_unit: 2, algorithm: concurrency}}
`)
	if len(notes) > 0 {
		t.Errorf("notes: %v", notes)
	}
	for key, passes := range map[string]int{"a": 3, "b": 2, "c": 2} {
		for i := range passes + 2 {
			for name, l := range map[string]rls.Limiter{"the file": file, "the rules": converted} {
				if got, err := l.Limit(t.Context(), one(entries(key, "1"))); err != nil || got.Allowed != (i < passes) {
					t.Errorf("%s, request %d of %s: %+v, %v", name, i, key, got, err)
				}
			}
		}
	}
}

func TestConvertedKeysThatAreTwice(t *testing.T) {
	file, converted, notes := both(t, `
domain: d
descriptors:
  - key: generic_key
    value: a
    rate_limit: {unit: hour, requests_per_unit: 1}
    descriptors:
      - {key: generic_key, value: b, rate_limit: {unit: hour, requests_per_unit: 2}}
`)
	if len(notes) > 0 {
		t.Errorf("notes: %v", notes)
	}
	a, ab := entries("generic_key", "a"), entries("generic_key", "a", "generic_key", "b")
	for i, ask := range [][]penstock.Attribute{a, a, ab, ab, ab, a} {
		want, err := file.Limit(t.Context(), one(ask))
		if err != nil {
			t.Fatal(err)
		}
		got, err := converted.Limit(t.Context(), one(ask))
		if err != nil || got.Allowed != want.Allowed {
			t.Errorf("%d: %v, %v, want %v", i, got, err, want.Allowed)
		}
	}
}

// A key that is a built-in attribute of rules is imported too, by the value that was sent.
func TestConvertedBuiltinKeys(t *testing.T) {
	for _, key := range []string{"path", "ip", "domain", "method", "host", "when", "attributes", "on_error", "limits"} {
		text := strings.ReplaceAll(`
domain: d
descriptors:
  - {key: KEY, value: /a//B/, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: KEY, value: "/x/*", rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: KEY, value: ExAmple.com, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: KEY, value: GET, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: KEY
    rate_limit: {unit: hour, requests_per_unit: 3}
    descriptors:
      - {key: KEY, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
`, "KEY", key)
		file, converted, notes := both(t, text)
		if len(notes) > 0 {
			t.Errorf("%s: notes: %v", key, notes)
		}
		denied := 0
		asked := []penstock.Attribute{}
		for _, value := range []string{"/a//B/", "/a/B", "/a/b", "/x/1", "/x/%31", "/x/1?q", "ExAmple.com", "example.com", "GET", "get", "192.0.2.1", "2001:db8::1", "2001:DB8::1", "d", "default", "free text"} {
			asked = append(asked, penstock.Attribute{Name: key, Value: value})
		}
		var asks [][]penstock.Attribute
		for _, a := range asked {
			asks = append(asks, []penstock.Attribute{a}, []penstock.Attribute{a, {Name: "user", Value: "u"}}, []penstock.Attribute{a, {Name: key, Value: "second"}})
		}
		asks = append(asks, entries("user", "u"), entries("user", "v"))
		for i := range 5 * len(asks) {
			ask := asks[i%len(asks)]
			want, err := file.Limit(t.Context(), one(ask))
			if err != nil {
				t.Fatal(err)
			}
			got, err := converted.Limit(t.Context(), one(ask))
			if err != nil || got.Allowed != want.Allowed || (got.Each[0].Told == nil) != (want.Each[0].Told == nil) {
				t.Errorf("%s: %v: got %v (%v), want %v", key, ask, got, err, want.Allowed)
			}
			if !want.Allowed {
				denied++
			}
		}
		if denied < len(asks) {
			t.Errorf("%s: %d denied: the test is not worth much", key, denied)
		}
	}
}

func TestNotes(t *testing.T) {
	_, _, notes := both(t, `
domain: d
descriptors:
  - {key: a, quota_mode: true, detailed_metric: true, metadata: {x: y}, rate_limit: {unit: hour, name: one, replaces: [{name: two}]}}
  - {key: b, value: 10.0.0.0/8, rate_limit: {unit: hour, name: two}}
  - {key: not a name, rate_limit: {unit: hour}}
  - {key: x-y, rate_limit: {unit: hour, name: Ünï côde}}
  - {key: x-z, rate_limit: {unit: hour, name: Ünï côde}}
`)
	got := strings.Join(notes, "\n")
	for _, want := range []string{
		"one: quota_mode", "one: replaces two", "one: metadata is left out", "one: detailed_metric is left out",
		"two: 10.0.0.0/8 is a network there", "d.not a name is left out: ", "two: calls that have not a name, x-y, x-z too are under it",
		"n--c-de-2: calls that have",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not there:\n%s", want, got)
		}
	}
}
