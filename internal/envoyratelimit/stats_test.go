package envoyratelimit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/rls"
)

// dump returns the series, one per line: labels, and the counts that are not 0.
func (s *Stats) dump() string {
	var lines []string
	s.Each(func(l Labels, n *Series) {
		line := strings.TrimRight(strings.Join([]string{l.Domain, l.Key1, l.Key2}, " "), " ") + ":"
		for _, c := range []struct {
			name  string
			count int64
		}{
			{"total", n.TotalHits.Load()}, {"within", n.WithinLimit.Load()}, {"near", n.NearLimit.Load()}, {"over", n.OverLimit.Load()},
			{"cached", n.OverLimitWithLocalCache.Load()}, {"shadow", n.ShadowMode.Load()}, {"negative", n.TotalNegativeHits.Load()},
		} {
			if c.count != 0 {
				line += fmt.Sprintf(" %s %d", c.name, c.count)
			}
		}
		lines = append(lines, line)
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// newStatsStand serves a file and counts.
func newStatsStand(t *testing.T, text string, s testEngine, o StatsOptions) *testEngine {
	t.Helper()
	if s.Store == nil {
		s.Store = newStore(t)
	}
	s.Now = at
	out := newStand(t, text, s)
	out.Stats = NewStats(o)
	return out
}

var usualStats = StatsOptions{NearLimit: 0.8, MaxSeries: 100, Cached: true}

// Hits are counted, not requests, and hits that cross a threshold count on both sides of it.
func TestStats(t *testing.T) {
	s := newStatsStand(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: b, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: c, rate_limit: {unlimited: true}}
  - {key: e, rate_limit: {unit: hour, requests_per_unit: 10, name: e}}
  - {key: f, rate_limit: {unit: hour, requests_per_unit: 10, replaces: [{name: e}]}}
`, testEngine{}, usualStats)
	for _, step := range []struct {
		hits int64
		of   string
		want string // of that key so far
	}{
		{7, "a1", "total 7 within 7"},
		{2, "a1", "total 9 within 9 near 1"}, // 8 of the 9 are not near
		{1, "a1", "total 10 within 10 near 2"},
		{3, "a1", "total 13 within 10 near 2 over 3"},
		{0, "a1", "total 13 within 10 near 2 over 3"},
		{12, "a2", "total 25 within 10 near 4 over 5"}, // another counter of the same limit: 2 of 12 are over
		{12, "b1", "total 12 near 2 over 2 shadow 2"},
		{4, "b1", "total 16 near 2 over 6 shadow 6"},
	} {
		s.ask(t, step.hits, step.of)
		if want := "d " + step.of[:1] + ": " + step.want; !strings.Contains(s.Stats.dump()+"\n", want+"\n") {
			t.Errorf("after %d hits of %s:\n%s\nwant %s", step.hits, step.of, s.Stats.dump(), want)
		}
	}
	before := s.Stats.dump()
	s.ask(t, 1, "c1", "x1")
	if got := s.Stats.dump(); got != before {
		t.Errorf("what has no limit was counted:\n%s", got)
	}
	if s.ask(t, 1, "e1", "f1"); strings.Contains(s.Stats.dump(), "d e") {
		t.Errorf("what is replaced was counted:\n%s", s.Stats.dump())
	}
	r := &rls.Request{Domain: "nowhere", Descriptors: []rls.Descriptor{{Entries: entries("a", "1"), Cost: 5}, {Entries: entries("b", "1")}}}
	if _, err := s.Limit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats.UnknownDomains(); len(got) != 1 || got["nowhere"] != 2 {
		t.Errorf("unknown domains: %v", got)
	}
}

// Answers of the deny cache count as over the limit, too.
func TestStatsOfCachedDenials(t *testing.T) {
	cache, err := denycache.New(newStore(t), denycache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for user, cached := range map[string]bool{"a1": true, "a2": false} { // as there with and without a local cache
		s := newStatsStand(t, hourly(2), testEngine{Store: cache}, StatsOptions{NearLimit: 0.8, MaxSeries: 100, Cached: cached})
		for range 3 {
			s.ask(t, 2, user)
		}
		want := "d a: total 6 within 2 near 1 over 4"
		if cached {
			want += " cached 2"
		}
		if got := s.Stats.dump(); got != want {
			t.Errorf("cached %t: got %s, want %s", cached, got, want)
		}
	}
}

func TestStatsOfRefunds(t *testing.T) {
	s := newStatsStand(t, hourly(5), testEngine{Refunds: true}, usualStats)
	r := &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{{Entries: entries("a", "1"), Cost: 3}, {Entries: entries("a", "1"), Cost: 2, Refund: true}}}
	if _, err := s.Limit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Stats.dump(), "d a: total 3 within 3 negative 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The names of statistics are those of src/config/config_impl.go of envoyproxy/ratelimit, and the labels those of its
// mapping for Prometheus.
func TestStatNames(t *testing.T) {
	const text = `
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: plain, value: one, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: plain, value: "w*", rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: plain, value: "s*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: detailed, value: "s*", detailed_metric: true, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: valued, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: valued, value: "w*", value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: valued, value: "s*", value_to_metric: true, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - key: outer
    value_to_metric: true
    descriptors:
      - key: inner
        descriptors:
          - {key: last, rate_limit: {unit: hour, requests_per_unit: 9}}
      - {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - key: shared
    value: "s*"
    share_threshold: true
    descriptors:
      - {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}
`
	for _, c := range []struct {
		entries []penstock.Attribute
		want    string
	}{
		{entries("plain", "x"), "d plain"},
		{entries("plain", "one"), "d plain_one"},
		{entries("plain", "wx"), "d plain_w*"},
		{entries("plain", "sx"), "d plain_s*"},
		{entries("detailed", "x"), "d detailed_x"},
		{entries("detailed", ""), "d detailed_"},
		{entries("detailed", "sx"), "d detailed_s*"},
		{entries("valued", "x"), "d valued_x"},
		{entries("valued", ""), "d valued"},
		{entries("valued", "wx"), "d valued_wx"},
		{entries("valued", "sx"), "d valued_s*"},
		{entries("outer", "x", "inner", "y", "last", "z"), "d outer_x inner"},
		{entries("outer", "x", "detailed", "y"), "d outer_x detailed_y"},
		{entries("shared", "s1", "detailed", "y"), "d shared_s* detailed_y"},
		{entries("shared", "s1", "detailed", ""), "d shared_s* detailed"},
		{entries("detailed", "10.0.0.1:80|x"), "d detailed_10_0_0_1_80_x"},
		{entries("detailed", "a.b.c"), "d detailed_a b"}, // a dot begins another part
	} {
		s := newStatsStand(t, text, testEngine{}, usualStats)
		if _, err := s.Limit(t.Context(), &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{{Entries: c.entries, Cost: 1}}}); err != nil {
			t.Fatal(err)
		}
		if got, want := s.Stats.dump(), c.want+": total 1 within 1"; got != want {
			t.Errorf("%v: got %q, want %q", c.entries, got, want)
		}
	}
	s := newStatsStand(t, text, testEngine{}, usualStats)
	own := rls.Descriptor{Entries: entries("any", "x", "more", ""), Cost: 1, Limit: &rls.Override{Count: 9, Window: day}}
	if _, err := s.Limit(t.Context(), &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{own}}); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Stats.dump(), "d any_x more: total 1 within 1"; got != want {
		t.Errorf("a limit of a descriptor: got %q, want %q", got, want)
	}
	if got, want := labelsOf("d."+ownName(entries("", "", "op", "w"))), (Labels{"d", "op_w", ""}); got != want {
		t.Errorf("an empty entry: got %v, want %v", got, want)
	}
}

// Values that clients choose cannot make an unbounded number of series.
func TestStatsAreBounded(t *testing.T) {
	s := newStatsStand(t, "domain: d\ndescriptors: [{key: a, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}]", testEngine{}, StatsOptions{NearLimit: 0.8, MaxSeries: 3})
	for i := range 10 {
		s.ask(t, 1, fmt.Sprintf("a%d", i))
		if _, err := s.Limit(t.Context(), &rls.Request{Domain: fmt.Sprint("nowhere", i), Descriptors: make([]rls.Descriptor, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.Stats.dump(), "d a_0: total 1 within 1\nd a_1: total 1 within 1\nd a_2: total 1 within 1\nother other: total 7 within 7"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := s.Stats.UnknownDomains(); len(got) != 4 || got[Other] != 7 {
		t.Errorf("unknown domains: %v", got)
	}
}
