package rules

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// Branches lead from a drawer to its divisions that a call's values name.
type branches struct {
	values   valueBranches
	prefixes affixBranches
	suffixes affixBranches
	networks []networkBranches // by attribute
	paths    *pathBranches
}

// add adds the division of a label. No label is added twice.
func (b *branches) add(p label, to ref) {
	switch p.kind {
	case withValue:
		b.values.add(p.slot, p.text, to)
	case withPrefix:
		b.prefixes.add(p.slot, p.text, to)
	case withSuffix:
		b.suffixes.add(p.slot, p.text, to)
	case inNetwork:
		i := slices.IndexFunc(b.networks, func(t networkBranches) bool { return t.slot == p.slot })
		if i < 0 {
			i = len(b.networks)
			b.networks = append(b.networks, networkBranches{slot: p.slot, table: &bart.Table[*network]{}})
		}
		b.networks[i].all = append(b.networks[i].all, &network{prefix: p.network, to: to})
	case onPath:
		if b.paths == nil {
			b.paths = newPathBranches()
		}
		b.paths.add(p.text, to)
	}
}

// finish is called once all are added.
func (b *branches) finish() {
	b.values.finish()
	b.prefixes.finish()
	b.suffixes.finish()
	for i := range b.networks {
		b.networks[i].finish()
	}
	if b.paths != nil {
		b.paths.nodes = slices.Clone(b.paths.nodes)
	}
}

func (b *branches) candidates(t *tree, v *callValues, out []int32) []int32 {
	out = b.values.candidates(t, v, out)
	out = b.prefixes.candidates(t, v, out, true)
	out = b.suffixes.candidates(t, v, out, false)
	for i := range b.networks {
		out = b.networks[i].candidates(t, v, out)
	}
	if path := &v.values[pathSlot]; b.paths != nil && path.there {
		out = b.paths.candidates(t, 0, path.text, v, out)
	}
	return out
}

// A slotText is a text in one attribute.
type slotText struct {
	slot int
	text string
}

// ValueBranches are those for a value as a whole.
type valueBranches struct {
	slots []int // with any
	at    map[slotText]ref
}

func (b *valueBranches) add(slot int, text string, to ref) {
	if b.at == nil {
		b.at = map[slotText]ref{}
	}
	b.at[slotText{slot, text}] = to
}

func (b *valueBranches) finish() {
	for key := range b.at {
		b.slots = append(b.slots, key.slot)
	}
	slices.Sort(b.slots)
	b.slots = slices.Clone(slices.Compact(b.slots))
}

func (b *valueBranches) candidates(t *tree, v *callValues, out []int32) []int32 {
	for _, slot := range b.slots {
		if have := &v.values[slot]; have.there {
			out = t.follow(b.at[slotText{slot, have.text}], v, out)
		}
	}
	return out
}

// AffixBranches are those for what a value begins with, or ends with: one look for each length
// that occurs.
type affixBranches struct {
	lengths []slotLength
	at      map[slotText]ref
}

type slotLength struct{ slot, length int }

func (b *affixBranches) add(slot int, text string, to ref) {
	if b.at == nil {
		b.at = map[slotText]ref{}
	}
	b.at[slotText{slot, text}] = to
}

func (b *affixBranches) finish() {
	for key := range b.at {
		b.lengths = append(b.lengths, slotLength{key.slot, len(key.text)})
	}
	slices.SortFunc(b.lengths, func(x, y slotLength) int {
		return cmp.Or(cmp.Compare(x.slot, y.slot), cmp.Compare(x.length, y.length))
	})
	b.lengths = slices.Clone(slices.Compact(b.lengths))
}

func (b *affixBranches) candidates(t *tree, v *callValues, out []int32, prefix bool) []int32 {
	for _, l := range b.lengths {
		have := &v.values[l.slot]
		if !have.there || len(have.text) < l.length {
			continue
		}
		text := have.text[len(have.text)-l.length:]
		if prefix {
			text = have.text[:l.length]
		}
		out = t.follow(b.at[slotText{l.slot, text}], v, out)
	}
	return out
}

// NetworkBranches are those for addresses. The table finds the narrowest network around an
// address; from there each leads to the next wider one.
type networkBranches struct {
	slot  int
	table *bart.Table[*network]
	all   []*network // until finished
}

type network struct {
	prefix netip.Prefix
	to     ref
	wider  *network
}

func (b *networkBranches) finish() {
	slices.SortFunc(b.all, func(x, y *network) int { return x.prefix.Bits() - y.prefix.Bits() })
	for _, n := range b.all {
		n.wider, _ = b.table.LookupPrefix(n.prefix)
		b.table.Insert(n.prefix, n)
	}
	b.all = nil
}

func (b *networkBranches) candidates(t *tree, v *callValues, out []int32) []int32 {
	have := &v.values[b.slot]
	if !have.there {
		return out
	}
	addr, ok := have.address()
	if !ok {
		return out
	}
	narrowest, _ := b.table.Lookup(addr)
	for n := narrowest; n != nil; n = n.wider {
		out = t.follow(n.to, v, out)
	}
	return out
}
