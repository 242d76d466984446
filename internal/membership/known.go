package membership

import (
	"cmp"
	"slices"
	"time"
)

// Believed is for how long a node counts that is not heard of any more: some beats may get lost.
const Believed = 10 * time.Second

// A Known is a node that was heard of.
type Known struct {
	ID    string
	Self  bool      // it is the one that is asked
	Node  *Node     // nil: it says nothing that this version can read
	Heard time.Time // when
}

// Silent tells whether a node was not heard of for so long that it may be gone; or it is the place where
// nodes look that is.
func (k *Known) Silent(now time.Time) bool { return !k.Self && now.Sub(k.Heard) > Believed }

// All returns what is known of the nodes: this one, then those that say something by their names. It
// may be less than [Members.Nodes] of them, as not all are told where there are very many, and none
// before there was an answer. What was last heard stays while nobody can be asked.
func (m *Members) All() []Known {
	all := slices.Clone(*m.known.Load())
	all[0].Heard = time.Now()
	return all
}

func (m *Members) itself(self *Node) Known {
	return Known{ID: m.options.ID, Self: true, Node: self, Heard: time.Now()}
}

// hear replaces what was known by what is told now.
func (m *Members) hear(self *Node, peers []Peer) {
	now := time.Now()
	all := []Known{m.itself(self)}
	for _, p := range peers {
		if p.ID == m.options.ID || !IsWord(p.ID) { // what is no word no node has for an ID
			continue
		}
		node, _ := readNode(p.About) // what cannot be read is not known
		all = append(all, Known{ID: p.ID, Node: node, Heard: now.Add(-min(p.Ago, Believed))})
	}
	slices.SortFunc(all[1:], func(a, b Known) int { return cmp.Or(cmp.Compare(a.name(), b.name()), cmp.Compare(a.ID, b.ID)) })
	m.known.Store(&all)
}

// rememberOthers replaces only what this node says of itself.
func (m *Members) rememberOthers(self *Node) {
	all := slices.Clone(*m.known.Load())
	all[0] = m.itself(self)
	m.known.Store(&all)
}

// name sorts those that say nothing behind the others.
func (k *Known) name() string {
	if k.Node == nil {
		return "\xff"
	}
	return k.Node.Name
}
