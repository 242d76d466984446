package rules

import (
	"net/netip"

	"github.com/penstock-io/penstock"
)

// Checks are conditions once more, as a match goes through them: in a row, one after the other in
// memory. Among many rules nearly all of a match's time is spent waiting for memory.

// A check asks one thing of one value.
type check struct {
	text string
	at   int32 // the value's slot; of isWithin which of the networks; of wildcards which segment
	kind checkKind
	more bool // or the next one
}

type checkKind uint8

const (
	isEqual checkKind = iota
	isLike            // with wildcards
	isWithin
	isOnPath
	isThere   // as part of a key
	isMissing // as part of a key, or not
	isSegment // a wildcard as part of a key
	isRemains // one for all that follow
)

// A checkedNetwork is what isWithin asks for: it would make every check twice as long.
type checkedNetwork struct {
	slot    int32
	network netip.Prefix
}

// An item is what a tree finds: conditions with what belongs to them.
type item struct {
	from, key, to uint32      // its checks, from those of the key on what the key consists of
	when          *expression // nil: none
	expires       penstock.Instant
	rule          *Rule // nil: an override or a list's entry
	overrides     *tree // nil: none
}

// checks are those of all items of a tree.
type checks struct {
	all      []check
	networks []checkedNetwork
}

// add appends the checks of conditions, the cheapest first, and those of a key.
func (c *checks) add(k *conditions, key []KeyPart, s slots) item {
	it := item{from: uint32(len(c.all)), when: k.when}
	if k.domain != "" {
		c.all = append(c.all, check{text: k.domain, at: domainSlot})
	}
	c.anyOf(len(k.methods), func(i int) check { return check{text: k.methods[i], at: methodSlot} })
	for i := range k.attributes {
		a := &k.attributes[i]
		c.anyOf(len(a.patterns), func(i int) check { return c.pattern(&a.patterns[i], int32(a.slot)) })
	}
	if k.path.text != "" {
		c.all = append(c.all, check{text: k.path.text, at: pathSlot, kind: isOnPath})
	}
	it.key = uint32(len(c.all))
	for i := range key {
		c.all = append(c.all, keyCheck(key[i], k.path, s))
	}
	it.to = uint32(len(c.all))
	return it
}

func keyCheck(part KeyPart, p pathPattern, s slots) check {
	if w, ok := p.wildcard(part.Name); ok {
		if w.rest {
			return check{at: int32(w.segment), kind: isRemains}
		}
		return check{at: int32(w.segment), kind: isSegment}
	}
	if part.Optional {
		return check{at: int32(s.of(part.Name)), kind: isMissing}
	}
	return check{at: int32(s.of(part.Name)), kind: isThere}
}

// anyOf appends alternatives. If there are none, so is there no check.
func (c *checks) anyOf(n int, nth func(int) check) {
	for i := range n {
		next := nth(i)
		next.more = i+1 < n
		c.all = append(c.all, next)
	}
}

func (c *checks) pattern(p *valuePattern, slot int32) check {
	switch {
	case p.network.IsValid():
		c.networks = append(c.networks, checkedNetwork{slot, p.network})
		return check{at: int32(len(c.networks) - 1), kind: isWithin}
	case p.wild:
		return check{text: p.text, at: slot, kind: isLike}
	}
	return check{text: p.text, at: slot}
}

// pass tells whether a call passes all checks of an item at an instant, but for the expression.
func (c *checks) pass(it *item, v *callValues, now penstock.Instant) bool {
	if it.expires != 0 && now >= it.expires {
		return false
	}
	run := c.all[it.from:it.to]
	for i := 0; i < len(run); i++ {
		if !c.passes(&run[i], v) {
			if run[i].more {
				continue
			}
			return false
		}
		for run[i].more { // any of them will do
			i++
		}
	}
	return true
}

func (c *checks) passes(k *check, v *callValues) bool {
	switch k.kind {
	case isSegment, isRemains:
		return true // the path fits
	case isWithin:
		n := &c.networks[k.at]
		have := &v.values[n.slot]
		if !have.there {
			return false
		}
		addr, ok := have.address()
		return ok && n.network.Contains(addr)
	}
	have := &v.values[k.at]
	if !have.there {
		return k.kind == isMissing
	}
	switch k.kind {
	case isEqual:
		return have.text == k.text
	case isLike:
		return fitsWildcards(k.text, have.text)
	case isOnPath:
		return pathPattern{k.text}.fits(have.text)
	}
	return true
}
