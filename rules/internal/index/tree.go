package index

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// A tree finds the conditions that hold for a request and checks hardly any others.
//
// Each is filed under one of its requirements (a facet: the domain, the path, one attribute), the one that it
// shares with the fewest others. A drawer that gets crowded is divided again, by another facet. So 1,000 tenants
// with 100 paths each are as fast as 100,000 paths.
//
// The drawers hold candidates, and every condition of a candidate is checked. A drawer may hold too many
// candidates, but must never lack one.
//
// With many rules, a match spends nearly all of its time waiting for memory. So the contents of all drawers are
// in a few small arrays without pointers, and a match prefetches everything it needs before it uses the first of
// it.
type tree struct {
	root    ref
	drawers []treeNode
	here    []int32    // candidates of the drawers
	looks   []lookup   // how drawers are divided
	nodes   []pathNode // of divisions by path
	labels  table      // from looks to refs
	edges   table      // from literal segments to nodes
	tape    string     // records, in order
	extras  []recordExtras
}

// A ref leads to what is filed under a label: nothing (0), a single candidate (above 0), or a drawer (below 0). A
// candidate is the position of its record on the tape.
type ref int32

func toCandidate(at int32) ref { return ref(at + 1) }
func toDrawer(i int) ref       { return ref(-i - 1) }

// A treeNode is a node of the tree that holds several conditions.
type treeNode struct {
	here  indexRange // candidates for every request that leads here
	looks indexRange // how to find further candidates
}

// An indexRange is a range of an array.
type indexRange struct{ from, to uint32 }

// candidates appends the positions of all records that may hold for a request, in no order and possibly with
// duplicates.
func (t *tree) candidates(v *Values, out []int32) []int32 {
	return t.follow(t.root, len(t.drawers), v, out)
}

// follow follows a ref from a drawer. Divisions have lower numbers than the drawer they divide. A ref that leads
// elsewhere was found under the hash of another label and could loop, so follow ignores it.
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

// search follows all looks of a drawer for a request's values. It prefetches all places of the table first, and
// then follows them.
func (t *tree) search(drawer int, looks indexRange, v *Values, out []int32) []int32 {
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

// A pathNode is a position in a path, segment by segment. The table maps its literal segments to nodes.
type pathNode struct {
	any   int32 // the node after {name}; 0: none
	here  ref   // for a path that ends here
	rest  ref   // for {name...} here
	leads bool  // has literal segments
}

// walk appends the candidates for the rest of a path at a node, for a drawer. Its depth is at most the number of
// segments. {name...} after the end of a path matches if a trailing slash is ignored.
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

// prefetch prefetches the records of candidates. The result has no meaning, but must be kept so that the reads are not
// optimised away.
func (t *tree) prefetch(candidates []int32) (awaited uint32) {
	const line = 64 // size of a cache line
	for _, at := range candidates {
		awaited += uint32(t.tape[at]) + uint32(t.tape[min(int(at)+line, len(t.tape)-1)])
	}
	return awaited
}

// holds reports whether a record holds for a request at an instant, and appends the values of its key if it does.
// It evaluates the expression last. If the expression fails, holds returns the error, and SkipOnError says
// whether the record holds.
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
