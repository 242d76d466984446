// Package index finds the rules that match a request and checks hardly any others.
//
// [Build] files [Item]s under what their [Conditions] require. [Index.Match] lays out the values of a request,
// follows them to candidates and checks every condition of these. Only package rules knows which rule or override
// an item is.
package index

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
)

// An Item is the part of a rule or an override that decides which requests it applies to.
type Item struct {
	Conditions
	Key       []KeyPart
	Overrides []Item           // the first that holds applies; they have no key and no overrides
	Expires   penstock.Instant // 0: never
	Off       bool             // never matches
}

// A KeyPart is an attribute, or a wildcard of the path, that is part of a key.
type KeyPart struct {
	Name     string
	Optional bool // a missing one counts as empty
	Prefix   int  // significant bits of an IPv6 address; 0: the value as it is
}

// Value names what is counted: an attribute, or its network.
func (k KeyPart) Value() string {
	if k.Prefix != 0 {
		return k.Name + "/" + strconv.Itoa(k.Prefix)
	}
	return k.Name
}

// An Index finds the items that match a request. It is immutable.
type Index struct {
	slots       *slots
	texts       internedTexts // nil once the index is built
	work        func(steps int) bool
	items       []Item // contiguous, so that finding one reads no memory
	rules       *tree  // of the items that are not off
	allow, deny *tree
}

// Build builds the index of items, in their order, and of the lists of requests that are always allowed and
// always denied. It takes ownership: the items belong to one index only. Build reports steps to work and stops if
// work returns false; the index is then unusable. A nil work means no bound.
func Build(items []Item, allow, deny []Conditions, work func(steps int) bool) *Index {
	if work == nil {
		work = func(int) bool { return true }
	}
	x := &Index{slots: newSlots(), texts: internedTexts{}, items: items, work: work}
	b := treeBuilder{slots: x.slots, work: work}
	for i := 0; i < len(items) && work(1); i++ {
		r := &items[i]
		x.adopt(&r.Conditions)
		overrides := x.overrides(r)
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
	x.allow = x.list(allow, true) // an error never puts a request on the allow list
	x.deny = x.list(deny, false)
	x.texts, x.work = nil, nil
	return x
}

// internedTexts keeps each text once, copied out of the document. The texts are close together in memory, and the
// document can be freed.
type internedTexts map[string]string

// keep returns the kept copy of a text. t may be nil once the index is built.
func (t internedTexts) keep(text string) string {
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

// adopt assigns a slot to every attribute that conditions name.
func (x *Index) adopt(c *Conditions) {
	c.Domain, c.Path.Text = x.texts.keep(c.Domain), x.texts.keep(c.Path.Text)
	c.pathSlot = x.slots.in("path", c.Path.Ignore)
	c.wildcardSlot = c.pathSlot
	if strings.Contains(c.Path.Text, "{") {
		c.wildcardSlot = x.slots.in("path", c.Path.Ignore&^urlform.Case)
	}
	c.exactSlot = c.wildcardSlot
	c.Methods = slices.Clone(c.Methods) // may belong to the document
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

// overrides returns the tree of an item's overrides, or nil if it has none.
func (x *Index) overrides(of *Item) *tree {
	if len(of.Overrides) == 0 {
		return nil
	}
	b := treeBuilder{slots: x.slots, work: x.work}
	for i := range of.Overrides {
		o := &of.Overrides[i]
		x.adopt(&o.Conditions)
		if o.When != nil && o.Path.Ignore != of.Path.Ignore && strings.Contains(of.Path.Text, "{") {
			of.exactSlot = x.slots.in("path", of.Path.Ignore&urlform.MatrixParameters)
		}
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
