package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
)

// A rule is judged against its own history: one that denies as much as usual is no finding, however much that is.
func TestRulesAreJudgedByTheirBaseline(t *testing.T) {
	usual := &baseline{rules: map[string]usualRule{"half": {10_000, 5000}, "rarely": {10_000, 10}, "never": {10_000, 0}, "new": {5, 0}}}
	for _, test := range []struct {
		rule            string
		allowed, denied int64
		shadow          int64
		want            string // severity and kind
	}{
		{"half", 50, 50, 0, ""},
		{"half", 40, 60, 0, ""},
		{"half", 2, 98, 0, "critical denies_more"},
		{"rarely", 1000, 1, 0, ""},
		{"rarely", 990, 10, 0, ""},
		{"rarely", 950, 50, 0, "warning denies_more"},
		{"rarely", 800, 200, 0, "critical denies_more"},
		{"never", 15, 3, 0, ""}, // too few to tell
		{"never", 1000, 0, 0, ""},
		{"never", 900, 100, 0, "critical denies_more"},
		{"new", 60, 40, 0, "info denies"},
		{"unknown", 60, 40, 0, "info denies"},
		{"unknown", 100, 0, 0, ""},
		{"tried", 50, 0, 50, "info shadow"},
		{"tried", 50, 0, 0, ""},
	} {
		r := traffic.RuleStats{Rule: test.rule, Total: traffic.Counts{Allowed: test.allowed, Denied: test.denied, Shadow: test.shadow}}
		f, ok := ruleFinding(&r, usual, test.rule == "tried")
		got := ""
		if ok {
			got = f.Severity + " " + f.Kind
			if f.Text == "" || f.Action.Text == "" || !strings.HasPrefix(f.Action.Path, "/") {
				t.Errorf("%+v: %+v", test, f)
			}
		}
		if got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// Measurements are compared with the targets, and decisions also with what they usually take.
func TestTargets(t *testing.T) {
	ms := func(f float64) *float64 { return &f }
	for _, test := range []struct {
		name     string
		value    *float64
		usual    *float64 // decision p99
		want     string
		severity string
	}{
		{"script p99", nil, nil, stateUnknown, ""},
		{"script p99", ms(4.9), nil, stateOK, ""},
		{"script p99", ms(5), nil, stateWarn, warning},
		{"script p99", ms(10), nil, stateFail, critical},
		{"script errors", ms(0.05), nil, stateOK, ""},
		{"script errors", ms(0.1), nil, stateWarn, warning},
		{"script errors", ms(1), nil, stateFail, critical},
		{"decision p99", ms(1.9), ms(0.1), stateOK, ""},
		{"decision p99", ms(2.5), ms(0.1), stateFail, critical},
		{"decision p99", ms(2.5), ms(2), stateWarn, warning}, // no slower than usual
		{"decision p99", ms(4.5), ms(2), stateFail, critical},
		{"decision p99", ms(2.5), nil, stateFail, critical},
	} {
		var target *Target
		all := targets(&fleet.Stats{}, &baseline{decision: test.usual})
		for i := range all {
			if all[i].Name == test.name {
				target = &all[i]
			}
		}
		target.Value = test.value
		target.State = target.state()
		severity := ""
		for _, f := range targetFindings([]Target{*target}) {
			severity = f.Severity
			if f.Alert == "" || !strings.Contains(f.Text, test.name) {
				t.Errorf("%+v", f)
			}
		}
		if target.State != test.want || severity != test.severity {
			t.Errorf("%+v: %s, %q", test, target.State, severity)
		}
	}
}

// A baseline is of the past of all nodes, and needs a quarter of an hour.
func TestBaseline(t *testing.T) {
	past := func(minutes int) *fleet.History {
		at := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
		h := &fleet.History{Query: trafficdb.Between(at, at.Add(time.Duration(minutes)*time.Minute))}
		p := &trafficdb.Past{Rules: map[string][]traffic.Counts{}}
		for i := range minutes {
			p.Known = append(p.Known, true)
			p.DecisionP99, p.StoreP99 = append(p.DecisionP99, int64(1000*(1+i%3))), append(p.StoreP99, 0)
			p.Rules["r"] = append(p.Rules["r"], traffic.Counts{Allowed: 3, Denied: 1})
		}
		h.Past = []*trafficdb.Past{p}
		return h
	}
	if b := baselineOf(past(14)); len(b.rules) != 0 || b.decision != nil {
		t.Errorf("of 14 minutes %+v", b)
	}
	b := baselineOf(past(30))
	if b.rules["r"] != (usualRule{120, 30}) || b.decision == nil || *b.decision != 2 || b.store != nil {
		t.Errorf("of half an hour %+v", b)
	}
}

// What stops limits from working is more urgent than what they deny.
func TestFindingsOfStatusAndNodes(t *testing.T) {
	now := time.Now()
	s := Status{Node: "north", Store: StoreStatus{Error: "refused"}, Rules: RulesStatus{Refused: "line 3", Error: "gone", FromCopy: true}}
	kinds := ""
	for _, f := range statusFindings(&s, now) {
		kinds += f.Severity + " " + f.Kind + "; "
	}
	if kinds != "critical store; critical rules_refused; warning rules_stale; warning rules_copy; " {
		t.Error(kinds)
	}
	s.Store.Connected, s.Rules = true, RulesStatus{}
	s.Store.SharedCounters = 1
	if found := statusFindings(&s, now); len(found) != 1 || found[0].Severity != critical || found[0].Kind != "memory_full" {
		t.Errorf("with shared counters %+v", found)
	}
	s.Store.SharedCounters = 0
	s.Store.Losses = &LossStatus{Times: 1, Last: now.Add(-time.Hour)}
	if found := statusFindings(&s, now); len(found) != 1 || found[0].Severity != critical || found[0].Kind != "data_lost" || found[0].Node != "north" {
		t.Errorf("after a loss of data %+v", found)
	}
	s.Certificates = []CertificateStatus{{Listener: "grpc", NotBefore: now.Add(-90 * 24 * time.Hour), NotAfter: now.Add(time.Hour)}}
	if found := statusFindings(&s, now); len(found) != 2 || found[1].Severity != warning || found[1].Kind != "certificate" {
		t.Errorf("before a certificate expires %+v", found)
	}
	s.Certificates[0].NotAfter = now.Add(30 * 24 * time.Hour)
	s.Store.Losses.Last = now.Add(-25 * time.Hour)
	if found := statusFindings(&s, now); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	node := func(name string, rules int64, quality string, ago time.Duration) membership.KnownNode {
		return membership.KnownNode{ID: name, Self: name == "a", Heard: now.Add(-ago), Node: &membership.Node{Name: name, Rules: rules, Checksum: string(rune('0' + rules)), Quality: quality}}
	}
	nodes := []membership.KnownNode{node("a", 3, membership.Exact, 0), node("b", 2, membership.Exact, 0), node("c", 3, membership.Degraded, 0), node("d", 3, membership.Exact, time.Minute)}
	kinds = ""
	for _, f := range nodeFindings(nodes, []fleet.Node{{Name: "e", Problem: "no answer"}, {Name: "a", Answered: true}}, now) {
		kinds += f.Node + " " + f.Severity + " " + f.Kind + "; "
	}
	if kinds != "b warning node_behind; c critical node_degraded; d warning node_silent; e info node_missing; " {
		t.Error(kinds)
	}
}
