package rules

import "slices"

// crowd is how many candidates share a drawer before it is divided.
const crowd = 8

// maxCopies bounds in how many divisions of a drawer the same conditions are filed, as they
// may list several values for several attributes.
const maxCopies = 64

// A treeBuilder makes a tree.
type treeBuilder struct {
	slots  slots
	facets [][]facet // by item
	made   tree
}

// add adds an item, which may be changed until the next is added.
func (b *treeBuilder) add(c *conditions, key []KeyPart) *item {
	b.facets = append(b.facets, facetsOf(c))
	b.made.items = append(b.made.items, b.made.checks.add(c, key, b.slots))
	return &b.made.items[len(b.made.items)-1]
}

// tree returns the tree of all that was added. It holds no more memory than it needs.
func (b *treeBuilder) tree() *tree {
	all := make([]filing, len(b.facets))
	for i := range all {
		all[i] = filing{item: int32(i), copies: 1}
	}
	root := b.file(all)
	t := b.made // a copy: the builder goes
	t.root = root
	t.drawers = slices.Clone(t.drawers)
	t.items = slices.Clone(t.items)
	t.checks.all = slices.Clone(t.checks.all)
	t.checks.networks = slices.Clone(t.checks.networks)
	return &t
}

// A filing is an item on its way down the tree.
type filing struct {
	item   int32
	copies int32  // in how many drawers the item is, by the facets used so far
	used   uint64 // facets
}

// file returns where these filings are found.
func (b *treeBuilder) file(filings []filing) ref {
	switch {
	case len(filings) == 0:
		return 0
	case len(filings) == 1:
		return toCandidate(filings[0].item)
	case len(filings) <= crowd:
		return b.keep(drawer{here: items(filings)})
	}
	count := b.count(filings)
	var here []filing
	at := map[label][]filing{}
	var order []label // the same tree for the same rules
	for _, f := range filings {
		best, ok := b.choose(f, count)
		if !ok {
			here = append(here, f)
			continue
		}
		labels := b.facets[f.item][best]
		f.used |= 1 << best
		f.copies *= int32(len(labels))
		for _, p := range labels {
			if at[p] == nil {
				order = append(order, p)
			}
			at[p] = append(at[p], f)
		}
	}
	d := drawer{here: items(here)}
	if len(order) > 0 {
		d.branches = &branches{}
		for _, p := range order {
			d.branches.add(p, b.file(at[p]))
		}
		d.branches.finish()
	}
	return b.keep(d)
}

func (b *treeBuilder) keep(d drawer) ref {
	b.made.drawers = append(b.made.drawers, d)
	return toDrawer(len(b.made.drawers) - 1)
}

func items(filings []filing) []int32 {
	if len(filings) == 0 {
		return nil
	}
	out := make([]int32, len(filings))
	for i, f := range filings {
		out[i] = f.item
	}
	return out
}

// count tells how many filings could be filed under each label.
func (b *treeBuilder) count(filings []filing) map[label]int {
	count := map[label]int{}
	for _, f := range filings {
		for i, labels := range b.facets[f.item] {
			if f.used&(1<<i) == 0 {
				for _, p := range labels {
					count[p]++
				}
			}
		}
	}
	return count
}

// choose returns the facet that leaves the fewest others to look at; of equals, the first.
func (b *treeBuilder) choose(f filing, count map[label]int) (best int, ok bool) {
	least := 0
	for i, labels := range b.facets[f.item] {
		many := f.used != 0 && len(labels) > 1 && int(f.copies)*len(labels) > maxCopies
		if f.used&(1<<i) != 0 || many {
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
