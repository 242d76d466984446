package index

import (
	"slices"

	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// crowd is how many candidates share a node of the tree before it is split.
const crowd = 8

// maxCopies bounds in how many divisions of a drawer the same conditions are filed, because they may list several
// values for several attributes.
const maxCopies = 64

// A treeBuilder builds a tree.
type treeBuilder struct {
	slots  *slots
	facets [][]facet // by item
	places []int32   // by item, where its record is on the tape
	tape   []byte
	nodes  map[edge]int32
	labels []tableEntry
	edges  []tableEntry
	made   tree
	work   func(steps int) bool // returns false if the tree is no longer needed
	room   int                  // remaining steps
}

// Checking a label takes one step, copying an item several. The tree is divided further while steps remain, so
// building it takes time and memory in proportion to its labels. Only rules that have many labels in common run
// out of steps. They are found like others, but among more candidates.
const (
	stepsPerLabel = 64 // granted
	stepsPerCopy  = 16 // used
)

// An edge leads from a node of a path to the next one by a literal segment.
type edge struct {
	from    int32
	segment string
}

// A tableEntry is an entry of the table to be built.
type tableEntry struct {
	hash uint64
	to   int32
}

// add adds an item with the tree of its overrides. Items are added in the order of their numbers.
func (b *treeBuilder) add(number int, item *Item, overrides *tree) {
	more := 0
	has := recordExtras{item.When, item.SkipOnError, overrides, item.Expires}
	if len(b.made.extras) == 0 {
		b.made.extras = []recordExtras{{}}
	}
	if has != (recordExtras{}) {
		more = len(b.made.extras)
		b.made.extras = append(b.made.extras, has)
	}
	b.places = append(b.places, int32(len(b.tape)))
	b.tape = appendRecord(b.tape, number, more, item, b.slots)
	facets := facetsOf(&item.Conditions)
	b.facets = append(b.facets, facets)
	for _, labels := range facets {
		b.room += stepsPerLabel * len(labels)
	}
}

// tree returns the tree of all added items.
func (b *treeBuilder) tree() *tree {
	all := make([]pendingItem, len(b.facets))
	for i := range all {
		all[i] = pendingItem{item: int32(i), copies: 1}
	}
	b.nodes = map[edge]int32{}
	b.made.root = b.file(all)
	return b.finish()
}

// finish returns the tree of all filed items. It uses no more memory than it needs.
func (b *treeBuilder) finish() *tree {
	t := b.made // a copy, so that the builder can be freed
	t.drawers = slices.Clone(t.drawers)
	t.here = slices.Clone(t.here)
	t.looks = slices.Clone(t.looks)
	t.nodes = slices.Clone(t.nodes)
	t.labels, t.edges = newTable(b.labels), newTable(b.edges)
	t.tape = string(b.tape)
	t.extras = slices.Clone(t.extras)
	return &t
}

// take uses steps and reports whether any remain.
func (b *treeBuilder) take(steps int) bool {
	b.room -= steps
	return b.work(steps) && b.room > 0
}

// A pendingItem is an item on its way down the tree.
type pendingItem struct {
	item   int32
	copies int32  // number of drawers that hold the item, by the facets used so far
	used   uint64 // facets
}

// file files the filings and returns a reference to them.
func (b *treeBuilder) file(filings []pendingItem) ref {
	switch {
	case len(filings) == 0:
		return 0
	case len(filings) == 1:
		return toCandidate(b.places[filings[0].item])
	case len(filings) <= crowd || !b.take(1):
		return b.keep(filings, nil, nil)
	}
	count := b.count(filings)
	var here []pendingItem
	at := map[label][]pendingItem{}
	var order []label // the same rules give the same tree
	for _, f := range filings {
		best, ok := b.choose(f, count)
		if !ok {
			here = append(here, f)
			continue
		}
		labels := b.facets[f.item][best]
		f.used |= 1 << best
		f.copies = min(f.copies*int32(len(labels)), maxCopies+1)
		b.take(stepsPerCopy * len(labels))
		for _, p := range labels {
			if at[p] == nil {
				order = append(order, p)
			}
			at[p] = append(at[p], f)
		}
	}
	divided := make([]ref, len(order)) // before the drawer itself, so that a drawer's parts are contiguous
	for i, p := range order {
		divided[i] = b.file(at[p])
	}
	return b.keep(here, order, divided)
}

// keep adds a drawer with its contents, and the divisions filed under labels.
func (b *treeBuilder) keep(here []pendingItem, labels []label, divided []ref) ref {
	t := &b.made
	d := treeNode{here: indexRange{from: uint32(len(t.here))}, looks: indexRange{from: uint32(len(t.looks))}}
	for _, f := range here {
		t.here = append(t.here, b.places[f.item])
	}
	at := map[lookup]int{}
	for i, p := range labels {
		l := lookFor(p)
		number, ok := at[l]
		if !ok {
			number = len(t.looks)
			at[l] = number
			if l.kind == onPath {
				l.at = b.grow()
			}
			t.looks = append(t.looks, l)
		}
		if l.kind == onPath {
			b.addPattern(t.looks[number].at, p.text, divided[i])
		} else {
			b.labels = append(b.labels, tableEntry{labelHash(p, l, uint32(number)), int32(divided[i])})
		}
	}
	d.here.to, d.looks.to = uint32(len(t.here)), uint32(len(t.looks))
	t.drawers = append(t.drawers, d)
	return toDrawer(len(t.drawers) - 1)
}

// addPattern makes a pattern lead from a node to where it is filed.
func (b *treeBuilder) addPattern(at int32, path string, filed ref) {
	for path != "" {
		var segment string
		segment, path = pattern.NextSegment(path)
		switch {
		case !pattern.IsWildcard(segment):
			to, ok := b.nodes[edge{at, segment}]
			if !ok {
				to = b.grow()
				b.nodes[edge{at, segment}] = to
				b.edges = append(b.edges, tableEntry{edgeHash(at, segment), to})
				b.made.nodes[at].leads = true
			}
			at = to
		case pattern.IsRest(segment):
			b.made.nodes[at].rest = filed
			return
		default:
			if b.made.nodes[at].any == 0 {
				to := b.grow()
				b.made.nodes[at].any = to
			}
			at = b.made.nodes[at].any
		}
	}
	b.made.nodes[at].here = filed
}

// grow adds a node. The first one is unused, because 0 means none.
func (b *treeBuilder) grow() int32 {
	if len(b.made.nodes) == 0 {
		b.made.nodes = append(b.made.nodes, pathNode{})
	}
	b.made.nodes = append(b.made.nodes, pathNode{})
	return int32(len(b.made.nodes) - 1)
}

// count returns how many filings could be filed under each label.
func (b *treeBuilder) count(filings []pendingItem) map[label]int {
	count := map[label]int{}
	for _, f := range filings {
		for i, labels := range b.facets[f.item] {
			if f.mayUse(i, labels) {
				b.take(len(labels))
				for _, p := range labels {
					count[p]++
				}
			}
		}
	}
	return count
}

// mayUse reports whether an item can be filed by a facet. A facet with several labels, unless it is the first,
// must not make too many copies.
func (f *pendingItem) mayUse(i int, labels facet) bool {
	many := f.used != 0 && len(labels) > 1 && int(f.copies)*len(labels) > maxCopies
	return f.used&(1<<i) == 0 && !many
}

// choose returns the facet that leaves the fewest other candidates. Of equals it returns the first.
func (b *treeBuilder) choose(f pendingItem, count map[label]int) (best int, ok bool) {
	least := 0
	for i, labels := range b.facets[f.item] {
		if !f.mayUse(i, labels) {
			continue
		}
		most := 0
		for _, p := range labels {
			most = max(most, count[p])
		}
		if !ok || most < least {
			best, least, ok = i, most, true
		}
	}
	return best, ok
}
