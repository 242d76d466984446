package admin

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A trial decides recorded requests again by other rules, and counts what each rule does.
type trial struct {
	rules  *rules.Snapshot
	replay *replay.Replay

	total  Counts
	byRule map[string]*Counts
	byKey  map[storage.Subject]*deniedKey

	match rules.Match
}

// A deniedKey is a client that a rule denies.
type deniedKey struct {
	rule  string
	key   []penstock.Attribute
	times int
}

func (a *Admin) newTrial(s *rules.Snapshot) (*trial, error) {
	r := &trial{rules: s, byRule: map[string]*Counts{}, byKey: map[storage.Subject]*deniedKey{}}
	for _, rule := range s.Rules {
		r.byRule[rule.Name] = &Counts{}
	}
	store, err := a.Scratch()
	if err != nil {
		return nil, err
	}
	if r.replay, err = replay.New(replay.Options{Rules: s, Store: store, Entitlements: a.Entitlements, EndsAtOnce: true}); err != nil {
		store.Close()
	}
	return r, err
}

// requestOf returns a recent request as a replay takes it. The nodes do not keep how long it took.
func requestOf(e *traffic.Event) *replay.Request {
	return &replay.Request{At: e.At, Took: -1, Domain: e.Domain, Attributes: e.Attributes, Cost: e.Cost}
}

// charges reports whether a recent request was decided by counters of its own. A peek and a duplicate were not.
func charges(e *traffic.Event) bool { return e.Cost != 0 && !e.Duplicate }

// decide decides a request again, and reports whether it is allowed.
func (r *trial) decide(ctx context.Context, e *traffic.Event) (bool, error) {
	v, err := r.replay.Decide(ctx, requestOf(e))
	if err != nil {
		return false, err
	}
	r.rules.Match(&penstock.Call{Domain: e.Domain, Attributes: e.Attributes, Cost: e.Cost}, penstock.InstantOf(e.At), &r.match)
	shadow := false
	for i := range r.match.Rules {
		m := &r.match.Rules[i]
		allowed, asked := allows(v, m.Rule.Name)
		if !asked {
			continue
		}
		counts := r.byRule[m.Rule.Name]
		switch {
		case allowed:
			counts.Allowed++
			continue
		case m.Rule.Mode == rules.Shadow:
			counts.Shadow++
			shadow = true
		default:
			counts.Denied++
			r.deny(m)
		}
	}
	if shadow {
		r.total.Shadow++
	}
	if v.Allowed {
		r.total.Allowed++
	} else {
		r.total.Denied++
	}
	return v.Allowed, nil
}

// allows reports whether all limits of a rule allow the request, and whether the rule was asked.
func allows(v *penstock.Verdict, rule string) (allowed, asked bool) {
	allowed = true
	for i := range v.Limits {
		if v.Limits[i].Rule == rule {
			asked = true
			allowed = allowed && v.Limits[i].Allowed
		}
	}
	return allowed, asked
}

func (r *trial) deny(m *rules.MatchedRule) {
	id := m.Rule.Subjects.Subject(m.Key...)
	k := r.byKey[id]
	if k == nil {
		k = &deniedKey{rule: m.Rule.Name}
		for i, value := range m.Key {
			k.key = append(k.key, penstock.Attribute{Name: m.Rule.Key[i].Name, Value: value})
		}
		r.byKey[id] = k
	}
	k.times++
}
