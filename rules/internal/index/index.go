// Package index finds the rules that match a request, with a look at hardly any other.
//
// [Build] files [Item]s under what their [Conditions] ask for. [Index.Match] lays out the values of a request, follows
// them to candidates and checks every condition of these. What the items stand for, package rules knows.
package index

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock"
)

// An Item is a rule or an override, as far as it decides which calls it is for.
type Item struct {
	Conditions
	Key       []KeyPart
	Overrides []Item           // the first that holds counts; they have no key and no overrides
	Expires   penstock.Instant // 0: never
	Off       bool             // it is never found
}

// A KeyPart is an attribute, or a wildcard of the path, that calls are told apart by.
type KeyPart struct {
	Name     string
	Optional bool // a missing one counts as empty
	Prefix   int  // bits of an IPv6 address that count; 0: the value as it is
}

// Value names what is counted: an attribute, or a network of it.
func (k KeyPart) Value() string {
	if k.Prefix != 0 {
		return k.Name + "/" + strconv.Itoa(k.Prefix)
	}
	return k.Name
}

// An Index finds the items that match a call. It is immutable.
type Index struct {
	slots       *slots
	texts       texts // until it is made
	work        func(steps int) bool
	items       []Item // in a row: finding one is no read of memory
	rules       *tree  // of those that are not off
	allow, deny *tree
}

// Build makes the index of items in their order, and of the lists of calls that are never limited and always refused.
// It adopts them: they belong to one index only. work is told of steps; where it says no, building stops and the index
// is of no use. nil: without a bound.
func Build(items []Item, allow, deny []Conditions, work func(steps int) bool) *Index {
	if work == nil {
		work = func(int) bool { return true }
	}
	x := &Index{slots: newSlots(), texts: texts{}, items: items, work: work}
	b := treeBuilder{slots: x.slots, work: work}
	for i := 0; i < len(items) && work(1); i++ {
		r := &items[i]
		overrides := x.overrides(r)
		x.adopt(&r.Conditions)
		for i := range r.Key {
			if _, ok := r.Path.Wildcard(r.Key[i].Name); !ok {
				x.slots.ofKey(r.Key[i], r.Path.Ignore, x.texts)
			}
		}
		if !r.Off {
			b.add(i, r, overrides)
		}
	}
	x.rules = b.tree()
	x.allow = x.list(allow, true) // nobody gets onto it by an error
	x.deny = x.list(deny, false)
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
func (x *Index) adopt(c *Conditions) {
	c.Domain, c.Path.Text = x.texts.keep(c.Domain), x.texts.keep(c.Path.Text)
	c.pathSlot = x.slots.in("path", c.Path.Ignore)
	c.Methods = slices.Clone(c.Methods) // they may be the document's
	for i := range c.Methods {
		c.Methods[i] = x.texts.keep(c.Methods[i])
	}
	for i := range c.Attributes {
		a := &c.Attributes[i]
		a.Name = x.texts.keep(a.Name)
		a.slot = x.slots.in(a.Name, c.Path.Ignore)
		for k := range a.Patterns {
			a.Patterns[k].Text = x.texts.keep(a.Patterns[k].Text)
		}
	}
}

// overrides returns the tree of an item's overrides, nil if it has none.
func (x *Index) overrides(of *Item) *tree {
	if len(of.Overrides) == 0 {
		return nil
	}
	b := treeBuilder{slots: x.slots, work: x.work}
	for i := range of.Overrides {
		x.adopt(&of.Overrides[i].Conditions)
		b.add(i, &of.Overrides[i], nil)
	}
	return b.tree()
}

func (x *Index) list(entries []Conditions, skipOnError bool) *tree {
	b := treeBuilder{slots: x.slots, work: x.work}
	for i := range entries {
		entries[i].SkipOnError = skipOnError
		x.adopt(&entries[i])
		b.add(i, &Item{Conditions: entries[i]}, nil)
	}
	return b.tree()
}
