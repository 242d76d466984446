package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// A RuleView is one rule, for display.
type RuleView struct {
	Name         string          `json:"name"`
	Domain       string          `json:"domain"`
	Mode         string          `json:"mode"`
	Match        string          `json:"match"` // in words
	Key          []string        `json:"key"`
	Limits       []LimitView     `json:"limits"`
	Overrides    []OverrideView  `json:"overrides"`
	Penalty      bool            `json:"penalty"` // whether it bans: manual bans need that
	OnStoreError string          `json:"on_store_error"`
	Leased       bool            `json:"leased"`
	Owner        string          `json:"owner,omitempty"`
	Expires      *time.Time      `json:"expires_at,omitempty"`
	File         string          `json:"file"`
	Line         int             `json:"line"`   // in its file
	Column       int             `json:"column"` // where the rule begins
	Terms        json.RawMessage `json:"terms"`  // the rule as it is written, as JSON
}

// A LimitView is one limit.
type LimitView struct {
	Policy    string             `json:"policy"`
	Text      string             `json:"text"`
	Algorithm penstock.Algorithm `json:"algorithm"`
	Limit     int64              `json:"limit"`
	Count     int64              `json:"count"`
	Window    int64              `json:"window_ms"`
}

// An OverrideView is the limits that apply to some clients instead.
type OverrideView struct {
	Match     string      `json:"match"`
	Unlimited bool        `json:"unlimited"`
	Limits    []LimitView `json:"limits"`
	Own       bool        `json:"own_counters"` // it does not share the rule's counters
	Expires   *time.Time  `json:"expires_at,omitempty"`
}

// views returns the rules of the files that were compiled to the snapshot.
func views(files []rules.File, s *rules.Snapshot) ([]RuleView, error) {
	compiled := make(map[string]*rules.Rule, len(s.Rules))
	for _, r := range s.Rules {
		compiled[r.Name] = r
	}
	all := []RuleView{}
	for _, f := range files {
		var doc rules.Document
		reading := rules.Read(f.Name, f.Data, &doc)
		var written struct {
			Rules []json.RawMessage `json:"rules"`
		}
		if err := json.Unmarshal(doc.JSON(), &written); err != nil {
			return nil, fmt.Errorf("show the rules of %s: %w", f.Name, err)
		}
		for i := range doc.Rules {
			t := &doc.Rules[i]
			r := compiled[t.Name]
			if r == nil {
				continue // the text does not belong to the snapshot
			}
			v := view(r, t)
			place, _ := reading.Place("rules", i)
			v.File, v.Line, v.Column, v.Terms = place.File, place.Line, place.Column, written.Rules[i]
			all = append(all, v)
		}
	}
	return all, nil
}

func view(r *rules.Rule, t *rules.RuleTerms) RuleView {
	v := RuleView{
		Name: r.Name, Domain: r.Domain(), Mode: r.Mode.String(), Match: describeMatch(&t.Match), Key: keyParts(r),
		Limits: limitViews(r.Limits, r.Policies), Overrides: []OverrideView{},
		Penalty: r.Penalty != nil, OnStoreError: r.OnStoreError.String(), Leased: r.Leased, Owner: r.Owner, Expires: timeOrNil(r.Expires),
	}
	for i := range min(len(r.Overrides), len(t.Overrides)) {
		o := &r.Overrides[i]
		v.Overrides = append(v.Overrides, OverrideView{
			Match: describeMatch(&t.Overrides[i].Match), Unlimited: o.Unlimited,
			Limits: limitViews(o.Limits, o.Policies), Own: o.OwnCounters, Expires: timeOrNil(o.Expires),
		})
	}
	return v
}

// keyParts returns what a rule tells clients apart by, as written.
func keyParts(r *rules.Rule) []string {
	return each(r.Key, func(part *rules.KeyPart) string { return part.String() })
}

func limitViews(meters []*algorithm.Meter, policies []string) []LimitView {
	all, now := []LimitView{}, penstock.InstantOf(time.Now())
	for i, m := range meters {
		all = append(all, LimitView{
			Policy: policies[i], Text: m.String(), Algorithm: m.Algorithm(),
			Limit: m.Capacity, Count: m.Count, Window: m.WindowAt(now).Milliseconds(),
		})
	}
	return all
}

func instantOrNil(at penstock.Instant) *time.Time {
	if at == 0 {
		return nil
	}
	return timeOrNil(at.Time())
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// describeMatch describes in words which requests match.
func describeMatch(m *rules.MatchTerms) string {
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			parts = append(parts, text)
		}
	}
	if m.Domain != "" {
		add("domain " + m.Domain)
	}
	add(strings.Join(m.Method, " or ") + " " + m.Path)
	for _, name := range slices.Sorted(maps.Keys(m.Attributes)) {
		add(name + " " + strings.Join(m.Attributes[name], " or "))
	}
	if m.When != "" {
		add("when " + m.When)
	}
	if len(parts) == 0 {
		return "every call"
	}
	return strings.Join(parts, ", ")
}
