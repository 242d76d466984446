package rules

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A Match is the result of matching a request against the rules. Reuse one, for one request at a time, to match
// without allocating.
type Match struct {
	// Denied and Allowed say that a list decides, the deny list first. Then no rule applies.
	Denied, Allowed bool

	Rules []MatchedRule // rules that apply, in document order

	// Failed lists the rules whose expression, or that of an override, could not be evaluated for this request.
	// OnError says whether they apply anyway.
	Failed []FailedRule

	// Refused is a rule that denies the request because an expression failed, or nil.
	Refused *Rule

	found index.Match
}

// A MatchedRule is a rule that applies to a request.
type MatchedRule struct {
	Rule     *Rule
	Override int      // index of the override whose limits replace the rule's, or NoOverride
	Key      []string // values in the order of the rule's key; valid until the Match is used again
	Estimate int64    // of a cost that is estimated, from 1 to its maximum; otherwise 0
}

// A FailedRule is a rule whose expression could not be evaluated, and why.
type FailedRule struct {
	Rule *Rule
	Err  error
}

// Reset empties the match and keeps its memory.
func (m *Match) Reset() {
	*m = Match{Rules: m.Rules[:0], Failed: m.Failed[:0], found: m.found}
}

// NoOverride as the Override of a Matched means the rule's own limits.
const NoOverride = index.NoOverride

// Match finds the rules that apply to a request at an instant. Every matching rule applies: a specific rule does
// not hide a general one.
//
// A rule matches if its conditions hold, the request has every attribute of its key that is not optional, the
// rule has not expired, and its mode is not off. The first of its overrides that holds and has not expired
// applies. path_matching and urlform.Path define the form in which a path is matched and used in keys.
func (s *Snapshot) Match(call *penstock.Call, now penstock.Instant, m *Match) {
	s.index.Match(call, now, &m.found)
	m.Denied, m.Allowed = m.found.Denied, m.found.Allowed
	m.Rules, m.Failed, m.Refused = m.Rules[:0], m.Failed[:0], nil
	for i := range m.found.Found {
		f := &m.found.Found[i]
		m.Rules = append(m.Rules, MatchedRule{Rule: &s.all[f.Item], Override: f.Override, Key: f.Key})
		if r := &s.all[f.Item]; r.Cost.estimate != nil {
			m.Rules[i].Estimate = m.estimate(r)
		}
	}
	for i := range m.found.Failed {
		m.fail(s, &m.found.Failed[i])
	}
}

// estimate returns what a request costs by the rule's expression.
func (m *Match) estimate(r *Rule) int64 {
	n, err := m.found.Number(r.item, r.Cost.estimate)
	if err != nil || n < 1 {
		return r.Cost.Default
	}
	return min(n, r.Cost.Max)
}

// fail records an expression that could not be evaluated.
func (m *Match) fail(s *Snapshot, f *index.FailedItem) {
	r := &s.all[f.Item]
	onError := r.onError
	if f.Override != NoOverride {
		onError = r.Overrides[f.Override].onError
	}
	m.Failed = append(m.Failed, FailedRule{r, f.Err})
	if onError == ErrorDenies && r.Mode != Shadow && m.Refused == nil {
		m.Refused = r
	}
}
