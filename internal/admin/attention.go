package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
)

// Attention compares the nodes with their targets, and says what an operator should check.
type Attention struct {
	Targets  []Target  `json:"targets"`
	Findings []Finding `json:"findings"` // most urgent first
}

// A Target is a measurement of the last minutes beside what it should be.
type Target struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`     // ms or %
	Value    *float64 `json:"value"`    // null: nothing was measured
	Target   float64  `json:"target"`   // it should be below
	Alert    float64  `json:"alert"`    // it is urgent from here on
	Baseline *float64 `json:"baseline"` // what it usually is; null: there is no history yet
	State    string   `json:"state"`    // ok, warn, fail or unknown
}

// A Finding is something to check, and how to begin.
type Finding struct {
	Severity string `json:"severity"`        // critical, warning or info
	Kind     string `json:"kind"`            // of what it is, the same for all rules and nodes
	Alert    string `json:"alert,omitempty"` // name of the Prometheus alert for the same
	Rule     string `json:"rule,omitempty"`
	Node     string `json:"node,omitempty"`
	Text     string `json:"text"`
	Action   Action `json:"action"`
}

// An Action is what to do about a finding.
type Action struct {
	Text string `json:"text"`
	Path string `json:"path"` // of the console
}

// Severities, the most urgent first.
var severities = []string{critical, warning, info}

const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// States of a target.
const (
	stateOK      = "ok"
	stateWarn    = "warn"
	stateFail    = "fail"
	stateUnknown = "unknown"
)

// judgedOver is the period that is compared with the baseline.
const judgedOver = 5 * time.Minute

func (a *Admin) attention(x *apiRequest) (any, error) {
	if err := x.query().err(); err != nil {
		return nil, err
	}
	return a.judge(x.r.Context()), nil
}

// judge compares the last minutes with targets and baselines.
func (a *Admin) judge(ctx context.Context) *Attention {
	now := time.Now()
	stats := a.Fleet.Count(ctx, traffic.Last(now, judgedOver), "")
	status, nodes, usual := a.Status(), a.Nodes(), a.baselines.get(ctx, a.Fleet, now)
	told := &Attention{Targets: targets(&stats, usual), Findings: []Finding{}}
	told.Findings = append(told.Findings, statusFindings(&status, now)...)
	told.Findings = append(told.Findings, targetFindings(told.Targets)...)
	told.Findings = append(told.Findings, nodeFindings(nodes, stats.Nodes, now)...)
	shadow := map[string]bool{}
	for _, r := range a.Rules.Live.Load().Rules {
		shadow[r.Name] = r.Mode.String() == "shadow"
	}
	for i := range stats.Rules {
		if f, ok := ruleFinding(&stats.Rules[i], usual, shadow[stats.Rules[i].Rule]); ok {
			told.Findings = append(told.Findings, f)
		}
	}
	if usual.problem != "" {
		told.Findings = append(told.Findings, Finding{Severity: warning, Kind: "history", Text: "The history cannot be read: " + usual.problem,
			Action: Action{"Check the database", "/system"}})
	}
	slices.SortStableFunc(told.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	told.Findings = told.Findings[:min(len(told.Findings), maxFindings)]
	return told
}

const maxFindings = 50

// targets compares the measurements with the targets of the service.
func targets(s *fleet.Stats, usual *baseline) []Target {
	script := Target{Name: "script p99", Unit: "ms", Value: p99(s.Store), Target: 5, Alert: 10, Baseline: usual.store}
	errors := Target{Name: "script errors", Unit: "%", Target: 0.1, Alert: 1}
	decision := Target{Name: "decision p99", Unit: "ms", Value: p99(s.Decisions), Target: 2, Alert: 2, Baseline: usual.decision}
	if n := s.StoreTotal.Operations; n > 0 {
		errors.Value = new(100 * float64(s.StoreTotal.Failed) / float64(n))
	}
	// Decisions that have always been slower than the target are only a warning. They fail if they have become twice
	// as slow as usual.
	if usual.decision != nil {
		decision.Alert = max(decision.Target, 2**usual.decision)
	}
	all := []Target{script, errors, decision}
	for i := range all {
		all[i].State = all[i].state()
	}
	return all
}

// p99 returns milliseconds; nil: nothing was measured.
func p99(times traffic.Times) *float64 {
	if times.Count() == 0 {
		return nil
	}
	return new(float64(times.Percentile(99).Microseconds()) / 1000)
}

func (t *Target) state() string {
	switch {
	case t.Value == nil:
		return stateUnknown
	case *t.Value >= t.Alert && *t.Value >= t.Target:
		return stateFail
	case *t.Value >= t.Target:
		return stateWarn
	}
	return stateOK
}

// alertNames are the Prometheus alerts for the same targets.
var alertNames = map[string]string{"script p99": "PenstockScriptSlow", "script errors": "PenstockScriptErrors", "decision p99": "PenstockDecisionsSlow"}

func targetFindings(all []Target) (found []Finding) {
	for _, t := range all {
		severity := map[string]string{stateFail: critical, stateWarn: warning}[t.State]
		if severity == "" {
			continue
		}
		text := fmt.Sprintf("%s is %.3g %s, the target is below %g %s", t.Name, *t.Value, t.Unit, t.Target, t.Unit)
		if t.Baseline != nil {
			text += fmt.Sprintf("; usually it is %.3g %s", *t.Baseline, t.Unit)
		}
		found = append(found, Finding{Severity: severity, Kind: "target", Alert: alertNames[t.Name], Text: text,
			Action: Action{"Check the store and the nodes", "/system"}})
	}
	return found
}

// toldFor is how long a loss of data is a finding. The status and the doctor tell of it until the node stops.
const toldFor = 24 * time.Hour

func statusFindings(s *Status, now time.Time) (found []Finding) {
	add := func(is bool, f Finding) {
		if is {
			f.Node = s.Node
			found = append(found, f)
		}
	}
	add(!s.Store.Connected, Finding{Severity: critical, Kind: "store", Alert: "PenstockStoreDown",
		Text: "The store is unavailable: " + s.Store.Error, Action: Action{"Check the store; penstock doctor finds the cause", "/system"}})
	add(s.Store.SharedCounters > 0, Finding{Severity: critical, Kind: "memory_full", Alert: "PenstockMemoryFull",
		Text:   "Memory is full: clients share counters, and some are denied because of others",
		Action: Action{"Raise store.memory.max_bytes", "/system"}})
	if lost := s.Store.Losses; lost != nil && now.Sub(lost.Last) < toldFor {
		add(true, Finding{Severity: critical, Kind: "data_lost", Alert: "PenstockDataLost",
			Text:   "Redis has lost data, last at " + lost.Last.UTC().Format(time.RFC3339) + ": counters, bans and reservations started from zero",
			Action: Action{"Look for FLUSHALL, a failover and a restart without persistence", "/system"}})
	}
	add(s.Rules.Refused != "", Finding{Severity: critical, Kind: "rules_refused",
		Text: "Newer rules are refused: " + s.Rules.Refused, Action: Action{"Correct the rules, or roll back", "/rules/edit"}})
	add(s.Rules.Error != "", Finding{Severity: warning, Kind: "rules_stale",
		Text: "The rules cannot be read; the last valid ones are in use: " + s.Rules.Error, Action: Action{"Check where the rules come from", "/system"}})
	add(s.Rules.FromCopy, Finding{Severity: warning, Kind: "rules_copy",
		Text: "The rules are a local copy, because their source could not be read", Action: Action{"Check where the rules come from", "/system"}})
	for i := range s.Certificates {
		c := &s.Certificates[i]
		severity := warning
		if c.Expired(now) {
			severity = critical
		}
		add(c.ExpiresSoon(now), Finding{Severity: severity, Kind: "certificate", Alert: "PenstockCertificateExpires",
			Text: "The certificate of listener " + c.Listener + " " + c.Text(now), Action: Action{"Renew it; a changed file is used without a restart", "/system"}})
	}
	for _, u := range s.Upstreams {
		add(!u.Up, Finding{Severity: critical, Kind: "upstream",
			Text: "The upstream server " + u.URL + " is unhealthy", Action: Action{"Check the upstream server", "/system"}})
	}
	return found
}

// nodeFindings compares the nodes with each other.
func nodeFindings(nodes []membership.KnownNode, asked []fleet.Node, now time.Time) (found []Finding) {
	add := func(severity, kind, node, text string) {
		found = append(found, Finding{Severity: severity, Kind: kind, Node: node, Text: "Node " + node + " " + text, Action: Action{"Check the node", "/system"}})
	}
	newest := newestOf(nodes, now)
	for i := range nodes {
		k := &nodes[i]
		if k.Node == nil {
			continue
		}
		switch name := k.Node.Name; {
		case k.Silent(now):
			add(warning, "node_silent", name, fmt.Sprintf("has sent no heartbeat for %v", now.Sub(k.Heard).Round(time.Second)))
		case k.Node.Quality == membership.Degraded:
			add(critical, "node_degraded", name, "decides without the shared state")
		case standingOf(k.Node, newest) == rulesBehind:
			add(warning, "node_behind", name, fmt.Sprintf("serves rules version %d, which is not the newest", k.Node.Rules))
		case standingOf(k.Node, newest) == rulesDifferent:
			add(warning, "node_different", name, "and others serve different rules")
		}
	}
	for _, n := range asked {
		if !n.Answered {
			add(info, "node_missing", n.Name, "is not included in the numbers: "+n.Problem)
		}
	}
	return found
}

// enough is how many requests a share needs before it is judged.
const enough = 20

// ruleFinding reports a rule that denies more than it usually does, or a shadow rule that would deny.
func ruleFinding(r *traffic.RuleStats, usual *baseline, shadow bool) (f Finding, ok bool) {
	c := r.Total
	requests := c.Allowed + c.Denied + c.Shadow
	if requests == 0 {
		return f, false
	}
	f = Finding{Rule: r.Rule, Severity: info}
	keys := Action{"See who is denied", "/keys?" + url.Values{"rule": {r.Rule}}.Encode()}
	if shadow {
		f.Kind, f.Action = "shadow", Action{"Enforce it or change it", "/rules?" + url.Values{"rule": {r.Rule}}.Encode()}
		f.Text = fmt.Sprintf("%s, a shadow rule, would deny %s of requests", r.Rule, percent(c.Shadow, requests))
		return f, c.Shadow > 0
	}
	before, known := usual.rules[r.Rule]
	f.Kind, f.Action = "denies_more", keys
	switch {
	case c.Denied == 0 || requests < enough:
		return f, false
	case !known || before.requests < enough:
		f.Kind = "denies"
		f.Text = fmt.Sprintf("%s denies %s of requests; there is no history to compare with yet", r.Rule, percent(c.Denied, requests))
		return f, true
	}
	now, share := float64(c.Denied)/float64(requests), before.share()
	if now <= usualAtMost(share, requests) {
		return f, false
	}
	f.Severity = warning
	if now >= 0.5 || now >= 5*share+0.1 {
		f.Severity = critical
	}
	f.Text = fmt.Sprintf("%s denies %s of requests, usually %s", r.Rule, percent(c.Denied, requests), percent(before.denied, before.requests))
	return f, true
}

// usualAtMost is the share of denied requests up to which nothing is unusual: three standard deviations of a sample of
// this size, and two percent and half as much again for what varies with the time of day.
func usualAtMost(share float64, requests int64) float64 {
	return share*1.5 + 0.02 + 3*math.Sqrt(share*(1-share)/float64(requests))
}

func percent(part, whole int64) string {
	p := 100 * float64(part) / float64(max(1, whole))
	if p > 0 && p < 10 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", p)
}

// A baseline is what is usual: the day before the last quarter of an hour.
type baseline struct {
	rules           map[string]usualRule
	decision, store *float64 // medians of p99, in milliseconds; nil: unknown
	problem         string
}

type usualRule struct{ requests, denied int64 }

func (u usualRule) share() float64 { return float64(u.denied) / float64(max(1, u.requests)) }

// Periods of baselines.
const (
	baselineOver  = 24 * time.Hour
	baselineUntil = 15 * time.Minute // before now
	baselineFor   = 2 * time.Minute  // how long a baseline is used
	baselineLeast = 15 * time.Minute // of history
)

// baselines caches the last baseline.
type baselines struct {
	mu   sync.Mutex
	last *baseline
	at   time.Time
}

// get returns a recent baseline. It reads the history if there is none; the history has its own timeout.
func (b *baselines) get(ctx context.Context, f *fleet.Fleet, now time.Time) *baseline {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && now.Sub(b.at) < baselineFor {
		return b.last
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	h, err := f.History(ctx, trafficdb.Between(now.Add(-baselineOver), now.Add(-baselineUntil)), "")
	fresh := &baseline{}
	switch {
	case err == nil:
		fresh = baselineOf(h)
		if h.Err != nil {
			fresh.problem = h.Err.Error()
		}
	case ctx.Err() != nil:
		return fresh // nobody waits for it any more
	}
	b.last, b.at = fresh, now
	return fresh
}

// baselineOf computes what was usual.
func baselineOf(h *fleet.History) *baseline {
	b := &baseline{rules: map[string]usualRule{}}
	var decision, store []int64
	known := time.Duration(0)
	for _, p := range h.Past {
		for i := range p.Known {
			if !p.Known[i] {
				continue
			}
			known += h.Step
			if v := p.DecisionP99[i]; v > 0 {
				decision = append(decision, v)
			}
			if v := p.StoreP99[i]; v > 0 {
				store = append(store, v)
			}
		}
		for rule, series := range p.Rules {
			u := b.rules[rule]
			for _, c := range series {
				u.requests += c.Allowed + c.Denied + c.Shadow
				u.denied += c.Denied
			}
			b.rules[rule] = u
		}
	}
	if known < baselineLeast {
		return &baseline{}
	}
	b.decision, b.store = median(decision), median(store)
	return b
}

// median returns milliseconds of microseconds; nil: there are none.
func median(us []int64) *float64 {
	if len(us) == 0 {
		return nil
	}
	slices.Sort(us)
	return new(float64(us[len(us)/2]) / 1000)
}
