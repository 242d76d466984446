package index

// Crowd is how many candidates share a drawer before it is divided.
const Crowd = crowd

// Candidates returns how many items were checked, Filed how many items drawers hold themselves, PathForms how
// many forms of the path are laid out in addition to the first.
func (m *Match) Candidates() int { return len(m.candidates) }
func (x *Index) Filed() int      { return len(x.rules.here) }
func (x *Index) PathForms() int  { return len(x.slots.forms) }

// Lose removes the i-th of everything that the tree of items leads to. It returns how many there are.
func (x *Index) Lose(i int) int { return x.rules.lose(i) }

// lose removes the i-th of everything that a tree leads to: candidates, drawers and nodes. It returns how many
// there are.
func (t *tree) lose(lost int) (all int) {
	loses := func() bool {
		all++
		return all == lost+1
	}
	for _, places := range [][]tableSlot{t.labels.places, t.edges.places} {
		for i := range places {
			if p := &places[i]; p.to != 0 && loses() {
				p.tag = ^p.tag // others are found behind it
			}
		}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, leads := range []*ref{&n.here, &n.rest, (*ref)(&n.any)} {
			if *leads != 0 && loses() {
				*leads = 0
			}
		}
	}
	for i := range t.drawers {
		here := &t.drawers[i].here
		for k := here.from; k < here.to; k++ {
			if loses() {
				t.here[k] = t.here[here.to-1]
				here.to--
			}
		}
	}
	return all
}

// Confuse makes each hash lead to everything that any hash of its kind leads to, and last to its own target.
func (x *Index) Confuse() {
	b := treeBuilder{slots: x.slots, nodes: map[edge]int32{}, work: func(int) bool { return true }}
	all := make([]pendingItem, len(x.items))
	for i := range x.items {
		b.add(i, &x.items[i], nil)
		all[i] = pendingItem{item: int32(i), copies: 1}
	}
	b.made.root = b.file(all)
	confuse := func(leads []tableEntry) (confused []tableEntry) {
		for _, l := range leads {
			for _, other := range leads {
				if other.to != l.to {
					confused = append(confused, tableEntry{l.hash, other.to})
				}
			}
			confused = append(confused, l)
		}
		return confused
	}
	b.labels, b.edges = confuse(b.labels), confuse(b.edges)
	x.rules = b.finish()
}
