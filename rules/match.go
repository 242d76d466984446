package rules

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A Match is what the rules say about a call. Reuse one, for one call at a time, to match without
// allocating.
type Match struct {
	// Denied and Allowed say that a list decides, the deny list first, and no rule applies.
	Denied, Allowed bool

	Rules []Matched // that apply, in the document's order

	// Failed are the rules whose expression, or that of an override, could not be evaluated for this
	// call. OnError says whether they apply all the same.
	Failed []Failed

	// Refused is a rule that denies the call because an expression failed; nil if none does.
	Refused *Rule

	found index.Match
}

// A Matched is a rule that applies to a call.
type Matched struct {
	Rule     *Rule
	Override int      // the one whose limits replace the rule's; NoOverride if none does
	Key      []string // values, in the order of the rule's key; valid until the Match is used again
}

// A Failed is a rule that could not be evaluated, and why.
type Failed struct {
	Rule *Rule
	Err  error
}

// Reset empties the match, whatever it holds, and keeps its memory.
func (m *Match) Reset() {
	*m = Match{Rules: m.Rules[:0], Failed: m.Failed[:0], found: m.found}
}

// NoOverride as a Matched's Override means the rule's own limits.
const NoOverride = index.NoOverride

// Match finds the rules that apply to a call at an instant. All that match do: a specific one
// hides no other.
//
// A rule matches if its conditions hold, the call has every attribute of its key that is not
// optional, it has not expired, and its mode is not off. Of its overrides the first that holds and
// has not expired counts. See path_matching and urlform.Path for what a path is matched, and keyed, as.
func (s *Snapshot) Match(call *penstock.Call, now penstock.Instant, m *Match) {
	s.index.Match(call, now, &m.found)
	m.Denied, m.Allowed = m.found.Denied, m.found.Allowed
	m.Rules, m.Failed, m.Refused = m.Rules[:0], m.Failed[:0], nil
	for i := range m.found.Found {
		f := &m.found.Found[i]
		m.Rules = append(m.Rules, Matched{&s.all[f.Item], f.Override, f.Key})
	}
	for i := range m.found.Failed {
		m.fail(s, &m.found.Failed[i])
	}
}

// fail notes an expression that could not be evaluated.
func (m *Match) fail(s *Snapshot, f *index.Failed) {
	r := &s.all[f.Item]
	onError := r.onError
	if f.Override != NoOverride {
		onError = r.Overrides[f.Override].onError
	}
	m.Failed = append(m.Failed, Failed{r, f.Err})
	if onError == ErrorDenies && r.Mode != Shadow && m.Refused == nil {
		m.Refused = r
	}
}
