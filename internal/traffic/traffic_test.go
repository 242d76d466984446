package traffic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const document = `
rules:
  - {name: search, match: {path: /search}, key: [user], limits: [{rate: 10/1h, algorithm: fixed_window}]}
  - {name: tried, match: {path: /search}, key: [user, plan?], limits: [{rate: 5/1h, algorithm: fixed_window}], mode: shadow}
  - {name: login, match: {path: /login}, key: [ip], limits: [{rate: 1/1h, algorithm: fixed_window}]}
`

// A node decides by rules in memory and remembers its decisions.
type node struct {
	*engine.Engine
	*traffic.Traffic
}

func newNode(t *testing.T, document string) *node {
	t.Helper()
	return newNodeOf(t, engine.Fixed(compile(t, document)))
}

func compile(t testing.TB, document string) *rules.Snapshot {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{Secret: "of the tests", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func newNodeOf(t *testing.T, r engine.Rules) *node {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	n := &node{Traffic: traffic.New()}
	t.Cleanup(n.Traffic.Close)
	n.Engine, err = engine.New(engine.Options{
		Store: store, Rules: r, Observe: n.Observe,
		Now: func() penstock.Instant { return penstock.InstantOf(time.Now()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) call(t *testing.T, attributes ...string) bool {
	t.Helper()
	c := penstock.Call{Cost: 1}
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: value})
	}
	var v penstock.Verdict
	if err := n.Decide(context.Background(), &c, &v); err != nil {
		t.Error(err)
	}
	return v.Allowed
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		for range 12 {
			n.call(t, "path=/search", "user=u1")
		}
		time.Sleep(30 * time.Second)
		for range 3 {
			n.call(t, "path=/login", "ip=198.51.100.7")
		}
		n.call(t, "path=/elsewhere")
		if err := n.Decide(t.Context(), &penstock.Call{Cost: -1}, new(penstock.Verdict)); err == nil {
			t.Error("a negative cost was decided")
		}

		s := n.Traffic.Stats(time.Minute)
		if want := (traffic.Counts{Allowed: 12, Denied: 4, Shadow: 7, Errors: 1}); s.Total != want {
			t.Errorf("in all %+v, want %+v", s.Total, want)
		}
		want := map[string]traffic.Counts{
			"search": {Allowed: 10, Denied: 2},
			"tried":  {Allowed: 5, Shadow: 7},
			"login":  {Allowed: 1, Denied: 2},
		}
		got := map[string]traffic.Counts{}
		for _, r := range s.Rules {
			got[r.Rule] = r.Total
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by rule: -want +got\n%s", diff)
		}
		if s.Rules[0].Rule != "login" || s.Rules[0].Keys.Count() != 1 || s.Rules[2].Rule != "tried" {
			t.Errorf("first %+v, last %+v, want a rule that denies, with one key, and last the shadow rule, which denies nobody", s.Rules[0], s.Rules[2])
		}
		if s.Step != 5*time.Second || len(s.Series) != 12 || s.Series[11].Allowed != 2 || s.To.Sub(s.From) > time.Minute {
			t.Errorf("series %v of %v from %v to %v", s.Series, s.Step, s.From, s.To)
		}

		totals := n.Totals()
		if totals.Decisions[penstock.ReasonOverLimit][penstock.QualityExact][0] != 4 || totals.Decisions[penstock.ReasonNoRule][penstock.QualityExact][1] != 1 {
			t.Errorf("totals %+v", totals)
		}

		time.Sleep(31 * time.Second)
		if s := n.Traffic.Stats(time.Minute); s.Total.Denied != 2 {
			t.Errorf("after the first half is a minute ago: %+v, want 2 denied", s.Total)
		}
		time.Sleep(time.Hour + time.Minute)
		if s := n.Traffic.Stats(time.Hour); s.Total != (traffic.Counts{}) || len(s.Rules) != 0 || len(n.Recent(traffic.Filter{}, 100)) != 0 {
			t.Errorf("after more than an hour %+v is remembered", s)
		}
		if again := n.Totals(); again != totals {
			t.Errorf("totals %+v after more than an hour, want them as before", again)
		}
	})
}

// Rules that were made for one request are counted by name.
func TestRulesOfOneRequest(t *testing.T) {
	snapshot, key := compile(t, document), []rules.KeyPart{{Name: "generic_key"}}
	n := newNodeOf(t, engine.Fixed(snapshot))
	for _, allowed := range []bool{true, false} {
		n.Observe(&engine.Observation{
			Call: &penstock.Call{Attributes: []penstock.Attribute{{Name: "generic_key", Value: "a"}}}, Rules: snapshot,
			Matched: []rules.MatchedRule{
				{Rule: &rules.Rule{Name: "edge", Index: -1, Key: key}, Key: []string{"a"}},
				{Rule: &rules.Rule{Name: "tried", Index: -1, Key: key, Mode: rules.Shadow}, Key: []string{"a"}},
			},
			Verdict: &penstock.Verdict{Allowed: allowed, Rule: "edge", Limits: []penstock.LimitVerdict{
				{Rule: "edge", Decision: penstock.Decision{Allowed: allowed}},
				{Rule: "tried", Shadow: true},
			}},
		})
	}
	n.call(t, "path=/login", "ip=198.51.100.7")
	s := n.Traffic.Stats(time.Minute)
	got := map[string]traffic.Counts{}
	for _, r := range s.Rules {
		got[r.Rule] = r.Total
	}
	want := map[string]traffic.Counts{"edge": {Allowed: 1, Denied: 1}, "tried": {Shadow: 2}, "login": {Allowed: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s.Total != (traffic.Counts{Allowed: 2, Denied: 1, Shadow: 2}) {
		t.Errorf("in all %+v", s.Total)
	}
}

// Every request is counted once, whatever is queried and changed at the same time.
func TestExactly(t *testing.T) {
	snapshots := [2]*rules.Snapshot{compile(t, document), compile(t, `rules: [{name: find, match: {path: /find}, key: [user], limits: [{rate: 10/1h, algorithm: fixed_window}]}]`)}
	n := newNodeOf(t, alternatingRules(snapshots))
	const callers, each = 8, 2000
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range each {
				n.call(t, "path=/search", fmt.Sprint("user=u", i%50))
				n.call(t, "path=/find", fmt.Sprint("user=u", i%50))
				if i%500 == 0 {
					n.Traffic.Stats(time.Minute)
				}
			}
		})
	}
	all.Wait()
	var counted, byReason int64
	totals := n.Totals()
	n.Rules(func(rule string, r *traffic.RuleTotals) {
		if rule == "search" || rule == "find" {
			for q := range r.Decisions[traffic.Allowed] {
				counted += r.Decisions[traffic.Allowed][q] + r.Decisions[traffic.Denied][q]
			}
		}
	})
	for _, reason := range []penstock.Reason{penstock.ReasonOK, penstock.ReasonOverLimit} {
		byReason += totals.Decisions[reason][penstock.QualityExact][0] + totals.Decisions[reason][penstock.QualityExact][1]
	}
	var sum int64
	for r := range totals.Decisions {
		for q := range totals.Decisions[r] {
			sum += totals.Decisions[r][q][0] + totals.Decisions[r][q][1]
		}
	}
	if sum != 2*callers*each || counted != byReason || counted == 0 {
		t.Errorf("%d calls counted, want %d; %d under rules, %d by reason", sum, 2*callers*each, counted, byReason)
	}
}

// alternatingRules are rules that change with every other request.
type alternatingRules [2]*rules.Snapshot

func (a alternatingRules) Load() *rules.Snapshot { return a[rand.IntN(2)] }

// The most denied clients are found among very many, and the number of clients is estimated.
func TestCallers(t *testing.T) {
	n := newNode(t, document)
	const many = 20_000
	for i := range many {
		n.call(t, "path=/login", fmt.Sprintf("ip=caller %d", i))
		if i%4 == 0 {
			n.call(t, "path=/login", "ip=greedy")
		}
	}
	for _, r := range n.Traffic.Stats(traffic.Reach).Rules {
		if r.Rule != "login" {
			continue
		}
		if n := r.Keys.Count(); n < many*85/100 || n > many*115/100 {
			t.Errorf("%d different callers, want about %d", n, many)
		}
		if len(r.Top) != 1 || r.Top[0].Key[0] != (penstock.Attribute{Name: "ip", Value: "greedy"}) {
			t.Errorf("most denied: %+v, want one", r.Top)
		}
		if denied := r.Top[0].Denied; denied < many/8 || denied > many/2 {
			t.Errorf("denied about %d times, want about %d", denied, many/4)
		}
	}
}

func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		n.call(t, "path=/search", "user=u1", "agent="+strings.Repeat("é", 200))
		time.Sleep(time.Second)
		for range 2 {
			time.Sleep(time.Millisecond)
			n.call(t, "path=/login", "ip=198.51.100.7")
		}
		all := n.Recent(traffic.Filter{}, 10)
		if len(all) != 3 || all[0].Allowed || !all[2].Allowed || all[0].Rule != "login" || all[0].RetryAfter == 0 {
			t.Fatalf("%+v, want three, the last denied", all)
		}
		if agent := all[2].Attributes[2].Value; len(agent) > 256 || !strings.HasPrefix(agent, "éé") {
			t.Errorf("kept %q of a long value", agent)
		}
		want := []traffic.RuleKey{
			{Rule: "search", Key: []penstock.Attribute{{Name: "user", Value: "u1"}}},
			{Rule: "tried", Key: []penstock.Attribute{{Name: "user", Value: "u1"}, {Name: "plan"}}, Result: traffic.ShadowAllowed},
		}
		if diff := cmp.Diff(want, all[2].Keys); diff != "" {
			t.Errorf("keys: -want +got\n%s", diff)
		}
		for _, c := range []struct {
			filter traffic.Filter
			most   int
			want   int
		}{
			{traffic.Filter{Denied: true}, 10, 1},
			{traffic.Filter{Rule: "login"}, 10, 2},
			{traffic.Filter{Rule: "login"}, 1, 1},
			{traffic.Filter{Attribute: "user", Value: "u1"}, 10, 1},
			{traffic.Filter{Attribute: "user", Value: "u2"}, 10, 0},
			{traffic.Filter{Attribute: "agent", Value: strings.Repeat("é", 200)}, 10, 1},
		} {
			if got := n.Recent(c.filter, c.most); len(got) != c.want {
				t.Errorf("%+v: %d, want %d", c.filter, len(got), c.want)
			}
		}
	})
}

// Of very many requests the last and the denied are kept, within bounds.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document+"lists: {deny: [{user: mallory}]}")
		for i := range 10_000 {
			n.call(t, "path=/elsewhere", fmt.Sprint("user=u", i))
		}
		for range 2 {
			n.call(t, "path=/login", "ip=198.51.100.7")
			n.call(t, "path=/elsewhere", "user=mallory")
		}
		if all := n.Recent(traffic.Filter{}, 1_000_000); len(all) > 4096 || len(all) < 100 {
			t.Errorf("%d calls are kept", len(all))
		}
		if denied := n.Recent(traffic.Filter{Denied: true}, 10); len(denied) != 3 {
			t.Errorf("%d denied calls are kept, want the three there were", len(denied))
		}
	})
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		all, denied, one := follow(t, n, traffic.Filter{}), follow(t, n, traffic.Filter{Denied: true}), follow(t, n, traffic.Filter{Attribute: "ip", Value: "rare"})
		for i := range 20_000 {
			if n.call(t, "path=/login", fmt.Sprint("ip=", i)); i == 15_000 {
				n.call(t, "path=/login", "ip=rare")
				n.call(t, "path=/login", "ip=rare")
			}
		}
		time.Sleep(time.Second)
		if len(one.Events()) != 2 {
			t.Errorf("%d calls of one caller among many, want 2", len(one.Events()))
		}
		if len(denied.Events()) != 1 {
			t.Errorf("%d denied, want 1", len(denied.Events()))
		}
		if missed := all.Dropped(); missed < 10_000 || len(all.Events()) < 100 {
			t.Errorf("of 20,002 calls %d came and %d were missed", len(all.Events()), missed)
		}
		if kept := len(n.Recent(traffic.Filter{}, 10_000)); kept > 3000 {
			t.Errorf("%d of calls that came at once are kept", kept)
		}
		one.Close()
		one.Close()
		n.call(t, "path=/login", "ip=rare")
		time.Sleep(time.Second)
		if len(one.Events()) != 2 {
			t.Error("a closed tail continues")
		}
		for range 14 {
			follow(t, n, traffic.Filter{})
		}
		if _, err := n.Follow(traffic.Filter{}); err == nil {
			t.Error("any number may watch")
		}
	})
}

func follow(t *testing.T, n *node, f traffic.Filter) *traffic.Tail {
	t.Helper()
	tail, err := n.Follow(f)
	if err != nil {
		t.Fatal(err)
	}
	return tail
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, document)
		for i := range 1000 {
			n.Took(time.Duration(i+1) * time.Microsecond)
		}
		n.Took(time.Hour)
		got := n.Traffic.Stats(time.Minute).Decisions
		near := func(a, b time.Duration) bool { return a >= b*98/100 && a <= b*102/100 }
		if !near(got.Percentile(50), 500*time.Microsecond) || !near(got.Percentile(99), 991*time.Microsecond) {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour + time.Minute)
		if got := n.Traffic.Stats(time.Hour).Decisions; got.Count() != 0 {
			t.Errorf("%+v after more than an hour", got)
		}
	})
}

// Memory does not grow with the number of rules seen over time.
func TestManyRules(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles 11,000 rules, and only one goroutine counts")
	}
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 11_000 {
		fmt.Fprintf(&text, "  - {name: r%d, match: {path: /%d}, key: [ip], limits: [10/1m]}\n", i, i)
	}
	n := newNode(t, text.String())
	for i := range 11_000 {
		n.call(t, fmt.Sprint("path=/", i), "ip=198.51.100.7")
	}
	n.Totals()
	names, others := 0, int64(0)
	n.Rules(func(rule string, r *traffic.RuleTotals) {
		names++
		if rule == traffic.Others {
			others = r.Decisions[traffic.Allowed][penstock.QualityExact]
		}
	})
	if names != 10_001 || others != 1000 {
		t.Errorf("%d names, and %d calls under others", names, others)
	}
	if s := n.Traffic.Stats(time.Minute); len(s.Rules) != 1024 {
		t.Errorf("%d rules with series", len(s.Rules))
	}
}
