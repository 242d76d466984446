package rules

import (
	"slices"

	"github.com/penstock-io/penstock"
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

	values     callValues
	candidates []int32 // for rules
	few        []int32 // for overrides, or entries of a list
	keys       []string
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
	*m = Match{
		Rules: m.Rules[:0], Failed: m.Failed[:0],
		values: m.values, candidates: m.candidates, few: m.few, keys: m.keys[:0],
	}
}

// NoOverride as a Matched's Override means the rule's own limits.
const NoOverride = -1

// Match finds the rules that apply to a call at an instant. All that match do: a specific one
// hides no other.
//
// A rule matches if its conditions hold, the call has every attribute of its key that is not
// optional, it has not expired, and its mode is not off. Of its overrides the first that holds and
// has not expired counts. See path_matching and urlform.Path for what a path is matched, and keyed, as.
func (s *Snapshot) Match(call *penstock.Call, now penstock.Instant, m *Match) {
	s.index.match(call, now, m)
}

func (x *index) match(call *penstock.Call, now penstock.Instant, m *Match) {
	m.Rules, m.Failed, m.Refused, m.keys = m.Rules[:0], m.Failed[:0], nil, m.keys[:0]
	m.values.lay(call, x.slots)
	m.Denied = m.first(x.deny.tree, now, nil) >= 0
	m.Allowed = !m.Denied && m.first(x.allow.tree, now, nil) >= 0
	if m.Denied || m.Allowed {
		return
	}
	t := x.rules
	m.candidates = inOrder(t.candidates(&m.values, m.candidates[:0]))
	m.values.awaited += t.ask(m.candidates)
	for _, at := range m.candidates {
		r := recordAt(t.tape, at)
		rule := &x.all[r.number]
		m.values.rule = rule
		from := len(m.keys)
		var holds bool
		var err error
		if m.keys, holds, err = t.holds(r, &m.values, now, m.keys); err != nil {
			m.fail(rule, t.extras[r.extra].onError, err)
		}
		if !holds {
			continue
		}
		found := Matched{Rule: rule, Override: NoOverride, Key: m.keys[from:len(m.keys):len(m.keys)]}
		if overrides := t.extras[r.extra].overrides; overrides != nil {
			found.Override = m.first(overrides, now, rule)
		}
		m.Rules = append(m.Rules, found)
	}
}

// inOrder puts candidates in the document's order, each once.
func inOrder(candidates []int32) []int32 {
	slices.Sort(candidates)
	return slices.Compact(candidates)
}

// first returns the number of the first record that holds, or -1. The records are a rule's overrides,
// or a list's entries.
func (m *Match) first(t *tree, now penstock.Instant, of *Rule) int {
	m.few = inOrder(t.candidates(&m.values, m.few[:0]))
	for _, at := range m.few {
		r := recordAt(t.tape, at)
		_, holds, err := t.holds(r, &m.values, now, nil)
		if err != nil && of != nil {
			m.fail(of, t.extras[r.extra].onError, err)
		}
		if holds {
			return int(r.number)
		}
	}
	return -1
}

// fail notes an expression that could not be evaluated.
func (m *Match) fail(r *Rule, o OnError, err error) {
	m.Failed = append(m.Failed, Failed{r, err})
	if o == ErrorDenies && r.Mode != Shadow && m.Refused == nil {
		m.Refused = r
	}
}
