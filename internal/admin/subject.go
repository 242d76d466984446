package admin

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/wire"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A subject is a client as one rule identifies it.
type subject struct {
	rules.RuleExplanation
	id storage.Subject
}

// clientSelector selects the client that a request is about.
type clientSelector struct {
	requestInput
	Rule string `json:"rule"` // "": all that keep state for the client
}

// find returns the subjects of the client that a request is about: that of the named rule, or else those of all rules
// whose key the attributes fill, except rules that do not distinguish clients. There must be at least one. It reports
// other errors of the request along with its own.
func (a *Admin) find(w *clientSelector, mistakes *wire.FieldErrors) ([]subject, error) {
	call := w.call(mistakes)
	if len(call.Attributes) == 0 && w.Rule == "" {
		mistakes.Add("attributes", `are missing: identify the client, for example {"user": "u1"}`)
	}
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	var found []subject
	for _, c := range a.Rules.Live.Load().Keyed(call, penstock.InstantOf(a.Now()), a.Entitlements) {
		if w.Rule == "" && hasKey(c) || c.Rule.Name == w.Rule {
			found = append(found, newSubject(c))
		}
	}
	if len(found) == 0 {
		return nil, a.unknown(w.Rule)
	}
	return found, nil
}

func newSubject(c rules.RuleExplanation) subject {
	values := make([]string, len(c.Key))
	for i, part := range c.Key {
		values[i] = part.Value
	}
	return subject{c, c.Rule.Subjects.Subject(values...)}
}

// unknown returns the error that no rule keeps state for a client.
func (a *Admin) unknown(rule string) error {
	if rule == "" {
		return refuse(http.StatusNotFound, NotFound, "no rule has a key of these attributes")
	}
	r, err := a.rule(rule)
	if err != nil {
		return err
	}
	return refuse(http.StatusNotFound, NotFound,
		fmt.Sprintf("the key of rule %s needs %v, which is missing; or the rule is off, has expired, or is in another domain", rule, r.Key))
}

// made reports whether a request came from this subject.
func (s *subject) made(e *traffic.Event) bool {
	return slices.ContainsFunc(e.Keys, func(k traffic.RuleKey) bool {
		return k.Rule == s.Rule.Name && slices.Equal(k.Key, s.Key)
	})
}

// group returns what the store would be asked for the rule's limits, as they apply to this subject.
func (s *subject) group() storage.Group {
	g := storage.Group{Subject: s.id, Penalty: s.Rule.Penalty, Alone: true}
	limits := s.Limits
	if len(limits) == 0 { // unlimited: earlier counters still exist
		limits = s.Rule.Limits
	}
	for _, m := range limits {
		g.Charges = append(g.Charges, algorithm.Charge{Meter: m})
	}
	return g
}

// counters are those of a rule's own limits or of an override.
type counters struct {
	override int // or rules.NoOverride
	limits   []*algorithm.Meter
	policies []string
}

// otherCounters returns the counters of the rule and of its overrides with their own counters, except those in group.
func (s *subject) otherCounters() (all []counters) {
	const ofTheRule = 0
	asked := uint64(ofTheRule)
	if s.Override != rules.NoOverride && s.Rule.Overrides[s.Override].OwnCounters {
		asked = s.Rule.Overrides[s.Override].MatchID
	}
	seen := map[uint64]bool{asked: true}
	if asked != ofTheRule {
		all = append(all, counters{rules.NoOverride, s.Rule.Limits, s.Rule.Policies})
	}
	for i := range s.Rule.Overrides {
		if o := &s.Rule.Overrides[i]; o.OwnCounters && !seen[o.MatchID] {
			seen[o.MatchID] = true
			all = append(all, counters{i, o.Limits, o.Policies})
		}
	}
	return all
}
