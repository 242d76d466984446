package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A Preview compares what two sets of rules decide for the recent requests that the nodes have kept. Each request
// is replayed once, at its original time, starting with empty counters, and ends at once: the nodes do not keep how
// long requests take. Peeks and duplicates are left out, as in a backtest of recent requests. If there were more
// requests than were kept, they are a sample, and both sets deny less than they really would.
type Preview struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`

	Calls     int   `json:"calls"`      // replayed requests
	StandsFor int64 `json:"stands_for"` // about how many requests they represent

	Current  Counts `json:"current"`
	Proposed Counts `json:"proposed"`

	NewlyDenied  int `json:"newly_denied"`  // allowed by the current rules
	NewlyAllowed int `json:"newly_allowed"` // denied by the current rules

	Rules    []RulePreview  `json:"rules"`
	Keys     []KeyPreview   `json:"keys"`     // clients for which something changes, the largest change first
	Problems rules.Problems `json:"problems"` // warnings

	// DenyAll are the rules with a new limit of 0, which denies every request under it: on purpose, or by
	// mistake.
	DenyAll []string `json:"deny_all"`
}

// Counts are numbers of verdicts.
type Counts struct {
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
	Shadow  int `json:"shadow"` // that shadow rules would have denied
}

// A RulePreview is how often one rule denies, or would deny if it were not a shadow rule.
type RulePreview struct {
	Rule     string  `json:"rule"`
	Current  *Counts `json:"current"` // null: the rule is not in this set
	Proposed *Counts `json:"proposed"`
}

// A KeyPreview is how often a rule denies one client. Shadow rules deny nobody.
type KeyPreview struct {
	Rule     string     `json:"rule"`
	Key      Attributes `json:"key"`
	Current  int        `json:"current_denied"`
	Proposed int        `json:"proposed_denied"`
}

const (
	maxReplayed = 10_000
	shownKeys   = 50
)

func (a *Admin) previewRules(x *apiRequest) (any, error) {
	files, err := x.readProposed()
	if err != nil {
		return nil, err
	}
	proposed, warnings, err := rules.CompileContext(x.r.Context(), files, a.Rules.Compile)
	if err != nil {
		return nil, err
	}
	calls := a.Fleet.Recent(x.r.Context(), traffic.Filter{}, maxReplayed, "")
	calls = slices.DeleteFunc(calls, func(e fleet.Event) bool { return !charges(&e.Event) })
	slices.Reverse(calls)
	slices.SortStableFunc(calls, func(a, b fleet.Event) int { return a.At.Compare(b.At) })
	p, err := a.compare(x.r.Context(), calls, a.Rules.Live.Load(), proposed)
	if err != nil {
		return nil, err
	}
	p.Problems = append(append(rules.Problems{}, warnings...), unseen(proposed)...)
	p.DenyAll = newlyDenyAll(a.Rules.Live.Load(), proposed)
	return p, nil
}

func (a *Admin) compare(ctx context.Context, calls []fleet.Event, current, proposed *rules.Snapshot) (*Preview, error) {
	before, err := a.newTrial(current)
	if err != nil {
		return nil, err
	}
	defer before.replay.Close()
	after, err := a.newTrial(proposed)
	if err != nil {
		return nil, err
	}
	defer after.replay.Close()
	p := &Preview{Calls: len(calls)}
	if len(calls) > 0 {
		p.From, p.To = calls[0].At, calls[len(calls)-1].At
	}
	for i := range calls {
		p.StandsFor += calls[i].Weight()
		was, err := before.decide(ctx, &calls[i].Event)
		if err != nil {
			return nil, err
		}
		is, err := after.decide(ctx, &calls[i].Event)
		if err != nil {
			return nil, err
		}
		if was && !is {
			p.NewlyDenied++
		} else if is && !was {
			p.NewlyAllowed++
		}
	}
	p.Current, p.Proposed = before.total, after.total
	p.Rules, p.Keys = rulesOf(before, after), keysOf(before, after)
	return p, nil
}

// unseen warns of rules that go by what the nodes do not keep of a request: how long it took, and its response.
func unseen(s *rules.Snapshot) (warnings rules.Problems) {
	warn := func(r *rules.Rule, format string) {
		warnings = append(warnings, rules.Problem{
			Severity: rules.Warning, Path: "rules." + r.Name, Message: fmt.Sprintf(format, r.Name),
			Hint: "use penstock backtest with a log that has it",
		})
	}
	for _, r := range s.Rules {
		if slices.ContainsFunc(r.Limits, func(m *algorithm.Meter) bool { return m.Kind == algorithm.KindLeases }) {
			warn(r, "rule %q limits concurrency, and the nodes do not keep how long requests take: the preview lets each end at once")
		}
		if r.Corrected() {
			warn(r, "rule %q charges by the response, which the nodes do not keep: the preview charges every request, or the estimate")
		}
	}
	return warnings
}

// newlyDenyAll returns the rules that have a limit of 0 in the proposed set only.
func newlyDenyAll(current, proposed *rules.Snapshot) []string {
	before, found := map[string]bool{}, []string{}
	for _, r := range current.Rules {
		before[r.Name] = deniesAll(r)
	}
	for _, r := range proposed.Rules {
		if deniesAll(r) && !before[r.Name] {
			found = append(found, r.Name)
		}
	}
	return found
}

func deniesAll(r *rules.Rule) bool {
	isZero := func(m *algorithm.Meter) bool { return m.PerWindow() == 0 }
	if r.Mode != rules.Enforce {
		return false
	}
	return slices.ContainsFunc(r.Limits, isZero) ||
		slices.ContainsFunc(r.Overrides, func(o rules.Override) bool { return slices.ContainsFunc(o.Limits, isZero) })
}

// rulesOf returns the rules of both sets, in the order of the proposed set.
func rulesOf(before, after *trial) []RulePreview {
	all := []RulePreview{}
	for _, rule := range after.rules.Rules {
		all = append(all, RulePreview{rule.Name, before.byRule[rule.Name], after.byRule[rule.Name]})
	}
	for _, rule := range before.rules.Rules {
		if after.byRule[rule.Name] == nil {
			all = append(all, RulePreview{Rule: rule.Name, Current: before.byRule[rule.Name]})
		}
	}
	return all
}

// keysOf returns the clients for which something changes, the largest change first.
func keysOf(before, after *trial) []KeyPreview {
	found := map[storage.Subject]*KeyPreview{}
	add := func(r *trial, count func(*KeyPreview) *int) {
		for id, k := range r.byKey {
			if found[id] == nil {
				found[id] = &KeyPreview{Rule: k.rule, Key: attributesOf(k.key)}
			}
			*count(found[id]) = k.times
		}
	}
	add(before, func(k *KeyPreview) *int { return &k.Current })
	add(after, func(k *KeyPreview) *int { return &k.Proposed })
	all := slices.DeleteFunc(slices.Collect(maps.Values(found)), func(k *KeyPreview) bool { return k.change() == 0 })
	slices.SortFunc(all, func(a, b *KeyPreview) int {
		return cmp.Or(cmp.Compare(b.change(), a.change()), cmp.Compare(b.Proposed, a.Proposed), cmp.Compare(a.Rule, b.Rule), compareKeys(a.Key, b.Key))
	})
	return each(all[:min(len(all), shownKeys)], func(k **KeyPreview) KeyPreview { return **k })
}

func (k *KeyPreview) change() int { return max(k.Proposed-k.Current, k.Current-k.Proposed) }

func compareKeys(a, b Attributes) int {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	return 0
}
