package rules

import "github.com/penstock-io/penstock"

// A tree finds those of many conditions that hold for a call, with a look at hardly any other.
//
// Each is filed under one of the things it asks for (a facet: the domain, the path, one
// attribute), the one that fewest others ask for too. A drawer that gets crowded is divided again,
// by another facet. So 1,000 tenants with 100 paths each are as quick as 100,000 paths.
//
// What is in the drawers are candidates, of which everything is checked: a drawer must only never
// lack one.
type tree struct {
	root    ref
	drawers []drawer
	items   []item
	checks  checks
}

// A ref leads to what is filed under a label: nothing (0), one candidate alone (above 0), or a
// drawer (below 0).
type ref int32

func toCandidate(item int32) ref { return ref(item + 1) }
func toDrawer(i int) ref         { return ref(-i - 1) }

// A drawer is where several conditions are filed.
type drawer struct {
	here     []int32   // candidates for whatever call leads here
	branches *branches // nil: none
}

// candidates appends the numbers of all items that may hold for a call, in no order, some perhaps
// twice.
func (t *tree) candidates(v *callValues, out []int32) []int32 { return t.follow(t.root, v, out) }

func (t *tree) follow(r ref, v *callValues, out []int32) []int32 {
	if r == 0 {
		return out
	}
	if r > 0 {
		return append(out, int32(r-1))
	}
	d := &t.drawers[-r-1]
	out = append(out, d.here...)
	if d.branches != nil {
		out = d.branches.candidates(t, v, out)
	}
	return out
}

// holds tells whether an item holds for a call at an instant, the expression last. An error is the
// expression's: the item does not hold.
func (t *tree) holds(it *item, v *callValues, now penstock.Instant) (bool, error) {
	if !t.checks.pass(it, v, now) {
		return false, nil
	}
	if it.when == nil {
		return true, nil
	}
	return it.when.holds(v)
}
