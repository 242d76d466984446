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

// A subject is a caller as one rule sees it.
type subject struct {
	rules.Considered
	id storage.Subject
}

// whom is how a request says whom it is about.
type whom struct {
	asked
	Rule string `json:"rule"` // "": all that keep state of the caller
}

// readSubjects reads whom a request is about.
func (a *Admin) readSubjects(x *exchange) ([]subject, error) {
	var asked whom
	if err := x.read(&asked); err != nil {
		return nil, err
	}
	return a.find(&asked)
}

// find returns whom a request is about, as rules see the caller: the one that is named, or else all
// whose key the attributes fill, except where that tells nobody apart. There must be one. What else
// is wrong with the request is told along with it.
func (a *Admin) find(w *whom, mistakes ...wire.Mistake) ([]subject, error) {
	call := w.call(&mistakes)
	if len(call.Attributes) == 0 && w.Rule == "" {
		mistakes = append(mistakes, wire.Mistake{At: "attributes", Message: `are missing: who is meant, for example {"user": "u1"}`})
	}
	if err := mistaken(mistakes); err != nil {
		return nil, err
	}
	var found []subject
	for _, c := range a.Rules.Live.Load().Keyed(call, penstock.InstantOf(a.Now())) {
		tells := slices.ContainsFunc(c.Key, func(part penstock.Attribute) bool { return part.Value != "" })
		if w.Rule == "" && tells || c.Rule.Name == w.Rule {
			found = append(found, newSubject(c))
		}
	}
	if len(found) == 0 {
		return nil, a.unknown(w.Rule)
	}
	return found, nil
}

func newSubject(c rules.Considered) subject {
	values := make([]string, len(c.Key))
	for i, part := range c.Key {
		values[i] = part.Value
	}
	return subject{c, c.Rule.Subjects.Subject(values...)}
}

// unknown says why no rule keeps state of somebody.
func (a *Admin) unknown(rule string) error {
	if rule == "" {
		return refuse(http.StatusNotFound, NotFound, "no rule tells callers apart by these attributes")
	}
	r, err := a.rule(rule)
	if err != nil {
		return err
	}
	return refuse(http.StatusNotFound, NotFound,
		fmt.Sprintf("rule %s tells callers apart by %v, which is not given; or it is off, has expired, or is of another domain", rule, r.Key))
}

// made tells whether a call was this subject's.
func (s *subject) made(e *traffic.Event) bool {
	return slices.ContainsFunc(e.Keys, func(k traffic.RuleKey) bool {
		return k.Rule == s.Rule.Name && slices.Equal(k.Key, s.Key)
	})
}

// group is what the rule's limits, as they hold for this subject, would be asked.
func (s *subject) group() storage.Group {
	g := storage.Group{Subject: s.id, Penalty: s.Rule.Penalty, Alone: true}
	limits := s.Limits
	if len(limits) == 0 { // unlimited: what was counted before is still there
		limits = s.Rule.Limits
	}
	for _, m := range limits {
		g.Charges = append(g.Charges, algorithm.Charge{Meter: m})
	}
	return g
}

// counters are those of a rule's limits or of an override's.
type counters struct {
	override int // or rules.NoOverride
	limits   []*algorithm.Meter
	policies []string
}

// otherCounters are those of the rule and of its overrides with counters of their own, except the ones
// that group asks about.
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
