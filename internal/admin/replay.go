package admin

import (
	"context"
	"errors"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A replay decides recorded requests again by other rules.
type replay struct {
	rules  *rules.Snapshot
	store  Scratch
	engine *engine.Engine
	now    penstock.Instant

	total  Counts
	byRule map[string]*Counts
	byKey  map[storage.Subject]*deniedKey

	match   rules.Match
	verdict penstock.Verdict
}

// A deniedKey is a client that a rule denies.
type deniedKey struct {
	rule  string
	key   []penstock.Attribute
	times int
}

func (a *Admin) newReplay(s *rules.Snapshot) (*replay, error) {
	r := &replay{rules: s, byRule: map[string]*Counts{}, byKey: map[storage.Subject]*deniedKey{}}
	for _, rule := range s.Rules {
		r.byRule[rule.Name] = &Counts{}
	}
	var err error
	if r.store, err = a.Scratch(); err != nil {
		return nil, err
	}
	r.engine, err = engine.New(engine.Options{Store: r.store, Rules: engine.Fixed(s), Now: func() penstock.Instant { return r.now }})
	if err != nil {
		r.store.Close()
	}
	return r, err
}

// decide decides a request again, and reports whether it is allowed.
func (r *replay) decide(ctx context.Context, e *traffic.Event) (bool, error) {
	r.now = penstock.InstantOf(e.At)
	call := penstock.Call{Domain: e.Domain, Attributes: e.Attributes, Cost: e.Cost, MaxDelay: penstock.AnyDelay}
	err := r.engine.Decide(ctx, &call, &r.verdict)
	if err != nil && !errors.Is(err, penstock.ErrInvalid) {
		return false, err
	}
	v := &r.verdict
	r.rules.Match(&call, r.now, &r.match)
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

func (r *replay) deny(m *rules.MatchedRule) {
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
