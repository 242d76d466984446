package index

import (
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/expr"
)

// A Match is what an index finds for a request. Reuse one, for one request at a time, to match without
// allocating.
type Match struct {
	// Denied and Allowed say that a list decides, the deny list first. Then Found is empty.
	Denied, Allowed bool

	Found  []MatchedItem // matching items, in order
	Failed []FailedItem  // expressions that could not be evaluated

	values     Values
	candidates []int32 // for items
	few        []int32 // for overrides, or entries of a list
	keys       []string
}

// A MatchedItem is a matching item.
type MatchedItem struct {
	Item     int
	Override int      // index of the override that applies, or NoOverride
	Key      []string // values in the order of the item's key; valid until the Match is used again
}

// A FailedItem is an item whose expression, or that of one of its overrides, failed.
type FailedItem struct {
	Item     int
	Override int // NoOverride: the item's own expression
	Err      error
}

// NoOverride means the item itself.
const NoOverride = -1

// Match finds the items that match a request at an instant, and the first matching override of each.
func (x *Index) Match(call *penstock.Call, now penstock.Instant, m *Match) {
	m.Found, m.Failed, m.keys = m.Found[:0], m.Failed[:0], m.keys[:0]
	m.values.set(call, x.slots)
	m.Denied = m.first(x.deny, now, nil) >= 0
	m.Allowed = !m.Denied && m.first(x.allow, now, nil) >= 0
	if m.Denied || m.Allowed {
		return
	}
	t := x.rules
	m.candidates = inOrder(t.candidates(&m.values, m.candidates[:0]))
	m.values.awaited += t.prefetch(m.candidates)
	for _, at := range m.candidates {
		r := recordAt(t.tape, at)
		m.values.item = &x.items[r.number]
		found := MatchedItem{Item: int(r.number), Override: NoOverride}
		from := len(m.keys)
		var holds bool
		var err error
		if m.keys, holds, err = t.holds(r, &m.values, now, m.keys); err != nil {
			m.Failed = append(m.Failed, FailedItem{found.Item, NoOverride, err})
		}
		if !holds {
			continue
		}
		found.Key = m.keys[from:len(m.keys):len(m.keys)]
		if overrides := t.extras[r.extra].overrides; overrides != nil {
			found.Override = m.first(overrides, now, &found)
		}
		m.Found = append(m.Found, found)
	}
}

// Number evaluates an expression of one of the items, for the request that was matched last.
func (m *Match) Number(item *Item, e *expr.Expression) (int64, error) {
	m.values.item = item
	return m.values.Number(e)
}

// inOrder sorts candidates and removes duplicates.
func inOrder(candidates []int32) []int32 {
	slices.Sort(candidates)
	return slices.Compact(candidates)
}

// first returns the number of the first record that holds, or NoOverride. The records are the overrides of an
// item, or the entries of a list.
func (m *Match) first(t *tree, now penstock.Instant, of *MatchedItem) int {
	m.few = inOrder(t.candidates(&m.values, m.few[:0]))
	for _, at := range m.few {
		r := recordAt(t.tape, at)
		if of != nil {
			m.values.over = &m.values.item.Overrides[r.number]
		}
		_, holds, err := t.holds(r, &m.values, now, nil)
		if err != nil && of != nil {
			m.Failed = append(m.Failed, FailedItem{of.Item, int(r.number), err})
		}
		if holds {
			m.values.over = nil
			return int(r.number)
		}
	}
	m.values.over = nil
	return NoOverride
}
