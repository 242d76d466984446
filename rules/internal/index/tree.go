package index

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// A tree finds those of many conditions that hold for a call, with a look at hardly any other.
//
// Each is filed under one of the things it asks for (a facet: the domain, the path, one
// attribute), the one that fewest others ask for too. A drawer that gets crowded is divided again,
// by another facet. So 1,000 tenants with 100 paths each are as quick as 100,000 paths.
//
// What is in the drawers are candidates, of which everything is checked: a drawer must only never
// lack one.
//
// Among many rules nearly all of a match's time is spent waiting for memory. So what all drawers
// hold lies in a few arrays, small and without pointers, and what a match will need is asked for
// before the first of it is used.
type tree struct {
	root    ref
	drawers []drawer
	here    []int32    // what the drawers hold themselves
	looks   []look     // how they are divided
	nodes   []pathNode // of divisions by path
	labels  table      // where looks lead, to refs
	edges   table      // where literal segments lead, to nodes
	tape    string     // records, in their order
	extras  []extra
}

// A ref leads to what is filed under a label: nothing (0), one candidate alone (above 0), or a
// drawer (below 0). A candidate is the place of its record on the tape.
type ref int32

func toCandidate(at int32) ref { return ref(at + 1) }
func toDrawer(i int) ref       { return ref(-i - 1) }

// A drawer is where several conditions are filed.
type drawer struct {
	here  stretch // candidates for whatever call leads here
	looks stretch // at what else a call may lead to
}

// A stretch is a part of an array.
type stretch struct{ from, to uint32 }

// candidates appends the places of all records that may hold for a call, in no order, some perhaps
// twice.
func (t *tree) candidates(v *Values, out []int32) []int32 {
	return t.follow(t.root, len(t.drawers), v, out)
}

// follow goes to where a ref leads from a drawer. Divisions come before what they divide: a ref that
// leads anywhere else was found under the hash of another label, and would go round in circles.
func (t *tree) follow(r ref, from int, v *Values, out []int32) []int32 {
	if r >= 0 {
		if r > 0 {
			out = append(out, int32(r-1))
		}
		return out
	}
	at := int(-r - 1)
	if at >= from {
		return out
	}
	d := &t.drawers[at]
	out = append(out, t.here[d.here.from:d.here.to]...)
	if d.looks.from < d.looks.to {
		out = t.search(at, d.looks, v, out)
	}
	return out
}

// search follows all looks of a drawer to where a call's values lead. It asks for all places of the
// table first, and goes on from them when they are there.
func (t *tree) search(drawer int, looks stretch, v *Values, out []int32) []int32 {
	began := len(v.hashes)
	for i := looks.from; i < looks.to; i++ {
		hash := t.looks[i].hash(v, i)
		if hash != 0 {
			v.awaited += t.labels.places[t.labels.first(hash)].tag
		}
		v.hashes = append(v.hashes, hash)
	}
	for i := looks.from; i < looks.to; i++ {
		if l := &t.looks[i]; l.kind == onPath {
			if path := &v.values[l.slot]; path.there {
				out = t.walk(l.at, path.text, drawer, v, out)
			}
			continue
		}
		hash := v.hashes[began+int(i-looks.from)]
		if hash == 0 {
			continue
		}
		for to, next := t.labels.find(hash, t.labels.first(hash)); to != 0; to, next = t.labels.find(hash, next) {
			out = t.follow(ref(to), drawer, v, out)
		}
	}
	v.hashes = v.hashes[:began]
	return out
}

// A pathNode is where a path leads, segment by segment; the table holds what literal ones lead to.
type pathNode struct {
	any   int32 // the node after {name}; 0: none
	here  ref   // for a path that ends here
	rest  ref   // for {name...} here
	leads bool  // on to literal segments
}

// walk appends the candidates of what is left of a path at a node, for a drawer. It goes no deeper than
// the path is long. {name...} after the end of a path fits where a trailing slash is ignored.
func (t *tree) walk(at int32, path string, drawer int, v *Values, out []int32) []int32 {
	n := &t.nodes[at]
	out = t.follow(n.rest, drawer, v, out)
	if path == "" {
		return t.follow(n.here, drawer, v, out)
	}
	segment, path := pattern.NextSegment(path)
	if n.leads {
		hash := edgeHash(at, segment)
		for to, next := t.edges.find(hash, t.edges.first(hash)); to != 0; to, next = t.edges.find(hash, next) {
			out = t.walk(to, path, drawer, v, out)
		}
	}
	if n.any != 0 && segment != "" {
		out = t.walk(n.any, path, drawer, v, out)
	}
	return out
}

// ask begins to read the records of candidates. What it returns means nothing, but must be kept.
func (t *tree) ask(candidates []int32) (awaited uint32) {
	const line = 64 // bytes that come at once
	for _, at := range candidates {
		awaited += uint32(t.tape[at]) + uint32(t.tape[min(int(at)+line, len(t.tape)-1)])
	}
	return awaited
}

// holds tells whether a record holds for a call at an instant, the expression last, and appends the
// values of its key if it does. With an error, the expression failed, and SkipOnError says whether the
// record holds.
func (t *tree) holds(r record, v *Values, now penstock.Instant, key []string) (with []string, holds bool, err error) {
	more := &t.extras[r.extra]
	if more.expires != 0 && now >= more.expires {
		return key, false, nil
	}
	with, holds = r.pass(v, key)
	if holds && more.when != nil {
		if holds, err = v.Evaluate(more.when); err != nil {
			holds = !more.skipOnError
		}
		if !holds {
			with = key
		}
	}
	return with, holds, err
}
