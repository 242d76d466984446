package membership

import (
	"cmp"
	"slices"
	"time"
)

// Believed is how long a silent node still counts, because some heartbeats may get lost.
const Believed = 10 * time.Second

// A KnownNode is a node whose heartbeats were seen.
type KnownNode struct {
	ID    string
	Self  bool      // this node itself
	Node  *Node     // nil: this version cannot read what it says
	Heard time.Time // time of its last heartbeat
}

// Silent reports whether there was no heartbeat of a node for so long that it may be gone, or that the shared
// place may be unavailable.
func (k *KnownNode) Silent(now time.Time) bool { return !k.Self && now.Sub(k.Heard) > Believed }

// All returns what is known of the nodes: this one, then those with facts, sorted by name. There may be fewer
// than [Members.Nodes], because not all are reported if there are very many, and none before the first
// answer. The last known ones stay while the shared place is unavailable.
func (m *Members) All() []KnownNode {
	all := slices.Clone(*m.known.Load())
	all[0].Heard = time.Now()
	return all
}

func (m *Members) knownSelf(self *Node) KnownNode {
	return KnownNode{ID: m.options.ID, Self: true, Node: self, Heard: time.Now()}
}

// update replaces what was known with the latest report.
func (m *Members) update(self *Node, peers []Peer) {
	now := time.Now()
	all := []KnownNode{m.knownSelf(self)}
	for _, p := range peers {
		if p.ID == m.options.ID || !IsWord(p.ID) { // no node has an ID that is not a word
			continue
		}
		node, _ := readNode(p.About) // what cannot be read is left out
		all = append(all, KnownNode{ID: p.ID, Node: node, Heard: now.Add(-min(p.Ago, Believed))})
	}
	slices.SortFunc(all[1:], func(a, b KnownNode) int { return cmp.Or(cmp.Compare(a.name(), b.name()), cmp.Compare(a.ID, b.ID)) })
	m.known.Store(&all)
}

// rememberOthers replaces only the facts of this node.
func (m *Members) rememberOthers(self *Node) {
	all := slices.Clone(*m.known.Load())
	all[0] = m.knownSelf(self)
	m.known.Store(&all)
}

// name sorts nodes without facts behind the others.
func (k *KnownNode) name() string {
	if k.Node == nil {
		return "\xff"
	}
	return k.Node.Name
}
