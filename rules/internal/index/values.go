package index

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Values are a request's attributes, laid out so that conditions find them by number.
type Values struct {
	call   *penstock.Call
	values []value // by slot
	item   *Item   // the current item, whose wildcards expressions read; nil: none
	over   *Item   // the current override of the item; nil: none
	scope  expr.Scope

	hashes  []uint64 // hashes of the current looks
	awaited uint32   // target of prefetching reads
}

// A value is the value of one attribute.
type value struct {
	text  string
	there bool
	read  parseState
	bits  addressBits // valid once it is parsed
	known uint64      // its hash; 0: not computed yet
}

func (v *value) hash() uint64 {
	if v.known == 0 {
		v.known = hashOf(v.text)
	}
	return v.known
}

// parseState says whether a value has been parsed as an address.
type parseState uint8

const (
	unread parseState = iota
	isAddress
	noAddress
)

// isAddress reports whether the value is an address. It parses the value on first use.
func (v *value) isAddress() bool {
	if v.read == unread {
		v.read = noAddress
		if addr, ok := pattern.ParseAddr(v.text); ok {
			v.bits, v.read = bitsOf(addr), isAddress
		}
	}
	return v.read == isAddress
}

// slots number the attributes that rules read, and the forms of the path that they read.
type slots struct {
	count int
	names map[string]int
	forms []pathForm // in addition to the one in pathSlot; nearly always none or one

	networks []network
}

// A network is the part of an address that a key uses: ip/48. It has its own slot.
type network struct{ of, slot, bits int }

// A pathForm is the path without the differences that some rules ignore.
type pathForm struct {
	ignore urlform.Ignore
	slot   int
}

// The slots that every index has. `domain` as an attribute is the request's domain.
const (
	domainSlot = iota
	methodSlot
	pathSlot
	ipSlot
)

func newSlots() *slots {
	return &slots{count: 4, names: map[string]int{"domain": domainSlot, "method": methodSlot, "path": pathSlot, "ip": ipSlot}}
}

// in returns the slot of an attribute, for a rule that ignores some differences between paths. It adds a slot if
// there is none yet.
func (s *slots) in(name string, ignore urlform.Ignore) int {
	if name == "path" && ignore != 0 {
		return s.form(ignore)
	}
	slot, ok := s.names[name]
	if !ok {
		slot = s.count
		s.count++
		s.names[name] = slot
	}
	return slot
}

// ofKey returns the slot of a part of a key. It keeps new names in texts, unless that is nil.
func (s *slots) ofKey(part KeyPart, ignore urlform.Ignore, texts internedTexts) int {
	if part.Prefix == 0 {
		return s.in(texts.keep(part.Name), ignore)
	}
	if slot, ok := s.names[part.Value()]; ok {
		return slot
	}
	of, slot := s.in(texts.keep(part.Name), 0), s.in(texts.keep(part.Value()), 0)
	s.networks = append(s.networks, network{of: of, slot: slot, bits: part.Prefix})
	return slot
}

func (s *slots) form(ignore urlform.Ignore) int {
	for _, f := range s.forms {
		if f.ignore == ignore {
			return f.slot
		}
	}
	s.forms = append(s.forms, pathForm{ignore, s.count})
	s.count++
	return s.count - 1
}

// set sets the values of a request. It normalises the path and the address, for conditions, expressions and keys
// alike.
func (v *Values) set(call *penstock.Call, s *slots) {
	v.call, v.item, v.over = call, nil, nil
	if cap(v.values) < s.count {
		v.values = make([]value, s.count)
	}
	v.values = v.values[:s.count]
	clear(v.values)
	v.values[domainSlot] = value{text: domainOf(call), there: true}
	for i := range call.Attributes {
		a := &call.Attributes[i]
		slot, ok := s.names[a.Name]
		if !ok || v.values[slot].there {
			continue
		}
		text := a.Value
		switch slot {
		case pathSlot:
			text = urlform.Path(text)
		case ipSlot:
			text = canonicalAddress(text)
		}
		v.values[slot] = value{text: text, there: true}
	}
	if path := &v.values[pathSlot]; path.there && len(s.forms) > 0 {
		in := urlform.In(path.text)
		for _, f := range s.forms {
			text := path.text
			if f.ignore&in != 0 {
				text = f.ignore.Path(text)
			}
			v.values[f.slot] = value{text: text, there: true}
		}
	}
	for _, n := range s.networks {
		if of := &v.values[n.of]; of.there {
			v.values[n.slot] = value{text: networkOf(of.text, n.bits), there: true}
		}
	}
}

// path returns the path in the form of the current override, or else of the current item.
func (v *Values) path() *value {
	switch {
	case v.over != nil:
		return &v.values[v.over.pathSlot]
	case v.item != nil:
		return &v.values[v.item.pathSlot]
	}
	return &v.values[pathSlot]
}

// wildcards returns the path that the wildcards in an expression are taken from.
func (v *Values) wildcards() *value {
	if v.over != nil && v.over.pathSlot != v.item.pathSlot {
		return &v.values[v.item.exactSlot]
	}
	return &v.values[v.item.pathSlot]
}

func domainOf(call *penstock.Call) string {
	if call.Domain == "" {
		return penstock.DefaultDomain
	}
	return call.Domain
}

// part returns the value of a part of a key.
func (v *Values) part(k check) string {
	switch k.kind {
	case isSegment, isRemains:
		w := pattern.Wildcard{Segment: int(k.at), Rest: k.kind == isRemains}
		return w.Of(v.values[v.item.wildcardSlot].text)
	}
	return v.values[k.at].text
}

// Variable returns the value of a wildcard of the current rule, or of any attribute, or "" if the request lacks
// it.
func (v *Values) Variable(name string) string {
	if v.item != nil {
		if w, ok := v.item.Path.Wildcard(name); ok {
			return w.Of(v.wildcards().text)
		}
	}
	switch name {
	case "domain":
		return v.values[domainSlot].text
	case "path":
		return v.path().text
	case "ip":
		return v.values[ipSlot].text
	}
	text, _ := v.call.Attribute(name)
	return text
}

// Number evaluates an expression whose value is a number.
func (v *Values) Number(e *expr.Expression) (int64, error) {
	v.scope.Variables = v
	return e.Number(&v.scope)
}

// Evaluate reports whether an expression holds. The result is meaningless if err is not nil.
func (v *Values) Evaluate(e *expr.Expression) (bool, error) {
	v.scope.Variables = v
	return e.Holds(&v.scope)
}
