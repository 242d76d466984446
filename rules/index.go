package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
)

// An index finds the rules that match a call. It is immutable.
type index struct {
	slots       *slots
	texts       texts // until it is made
	work        func(steps int) bool
	all         []Rule // in a row: finding one is no read of memory
	rules       *tree  // of those that are not off
	allow, deny list
}

// A list is that of the calls that are never limited, or of those that are always refused.
type list struct {
	entries []listEntry
	tree    *tree
}

// newIndex is buildIndex without a bound on its work.
func newIndex(all []Rule, allow, deny []listEntry) *index {
	return buildIndex(all, allow, deny, func(int) bool { return true })
}

// buildIndex makes the index of rules in their order. It adopts them: rules belong to one index
// only. work is told of steps; where it says no, building stops and the index is of no use.
func buildIndex(all []Rule, allow, deny []listEntry, work func(steps int) bool) *index {
	x := &index{slots: newSlots(), texts: texts{}, all: all, work: work}
	b := treeBuilder{slots: x.slots, work: work}
	for i := 0; i < len(all) && work(1); i++ {
		r := &all[i]
		overrides := x.overrides(r)
		x.adopt(&r.conditions)
		for i := range r.Key {
			if _, ok := r.conditions.path.wildcard(r.Key[i].Name); !ok {
				x.slots.ofKey(r.Key[i], r.conditions.path.ignore, x.texts)
			}
		}
		if r.Mode != Off {
			b.add(i, &r.conditions, r.Key, overrides, endOf(r.Expires))
		}
	}
	x.rules = b.tree()
	x.allow = x.list(allow, ErrorSkips) // nobody gets onto it by an error
	x.deny = x.list(deny, ErrorMatches)
	x.texts, x.work = nil, nil
	return x
}

// Texts are kept once each, and apart from the document they were cut from: so they lie close
// together, and the document can go.
type texts map[string]string

// keep returns the kept text. It may be nil once the index is made.
func (t texts) keep(text string) string {
	kept, ok := t[text]
	if t == nil {
		return text
	}
	if !ok {
		kept = strings.Clone(text)
		t[kept] = kept
	}
	return kept
}

// adopt gives every attribute that conditions name its slot.
func (x *index) adopt(c *conditions) {
	c.domain, c.path.text = x.texts.keep(c.domain), x.texts.keep(c.path.text)
	c.pathSlot = x.slots.in("path", c.path.ignore)
	c.methods = slices.Clone(c.methods) // they may be the document's
	for i := range c.methods {
		c.methods[i] = x.texts.keep(c.methods[i])
	}
	for i := range c.attributes {
		a := &c.attributes[i]
		a.name = x.texts.keep(a.name)
		a.slot = x.slots.in(a.name, c.path.ignore)
		for k := range a.patterns {
			a.patterns[k].text = x.texts.keep(a.patterns[k].text)
		}
	}
}

// overrides returns the tree of a rule's overrides, nil if it has none.
func (x *index) overrides(r *Rule) *tree {
	if len(r.Overrides) == 0 {
		return nil
	}
	b := treeBuilder{slots: x.slots, work: x.work}
	for i := range r.Overrides {
		o := &r.Overrides[i]
		x.adopt(&o.conditions)
		b.add(i, &o.conditions, nil, nil, endOf(o.Expires))
	}
	return b.tree()
}

func (x *index) list(entries []listEntry, onError OnError) list {
	b := treeBuilder{slots: x.slots, work: x.work}
	for i := range entries {
		entries[i].conditions.onError = onError
		x.adopt(&entries[i].conditions)
		b.add(i, &entries[i].conditions, nil, nil, 0)
	}
	return list{entries, b.tree()}
}

// endOf returns the instant at which something expires, 0 if it never does.
func endOf(t time.Time) penstock.Instant {
	if t.IsZero() {
		return 0
	}
	return max(penstock.InstantOf(t), 1)
}
