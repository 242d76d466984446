package index

import (
	"encoding/binary"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/expr"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Records are a compact form of conditions for matching. All checks of a record are contiguous on a tape,
// including their texts, so that checking one takes one or two reads of memory. A record is the number of the
// item, with hasExtra the number of its extra, and its checks:
//
//	kind  slot  length  text     depending on the kind, numbers as varints

// A record is what a tree finds.
type record struct {
	number uint32 // number of the item, in the order of addition
	extra  uint32 // number of the extra; nearly all records have the first
	checks string // followed by the rest of the tape
}

const hasExtra = 1 << 31

// A recordExtras holds what few records have.
type recordExtras struct {
	when        *expr.Expression // nil: none
	skipOnError bool             // of when
	overrides   *tree            // nil: none
	expires     penstock.Instant // 0: never
}

// A check is one condition on one value.
type check struct {
	kind checkKind
	more bool   // alternatives follow: it passes if this or the next check does
	at   int32  // slot of the value; for wildcards, the segment
	text string // to compare with
}

type checkKind uint8

const (
	noCheck    checkKind = iota // end of the record
	hasDefault                  // the domain is the default one, as in nearly all rules

	// Kinds that have a text.
	isEqual
	isLike   // with wildcards
	isWithin // a network
	isOnPath
	isOnBarePath // whose trailing slash is ignored

	// Kinds that are part of a key.
	isThere
	isMissing // or missing
	isSegment // a wildcard
	isRemains // a wildcard for all following segments

	moreFlag = 1 << 7 // added to the kind
)

// recordAt reads the record at a position of a tape.
func recordAt(tape string, at int32) (r record) {
	r.number, r.checks = uint32At(tape[at:]), tape[at+4:]
	if r.number&hasExtra != 0 {
		r.number &^= hasExtra
		r.extra, r.checks = uint32At(r.checks), r.checks[4:]
	}
	return r
}

// next reads the next check.
func (r *record) next() (k check) {
	rest := r.checks[1:]
	k.kind, k.more = checkKind(r.checks[0])&^moreFlag, r.checks[0]&moreFlag != 0
	if k.kind >= isEqual {
		var at uint32
		at, rest = uvarint(rest)
		k.at = int32(at)
	}
	if isEqual <= k.kind && k.kind <= isOnBarePath {
		var length uint32
		length, rest = uvarint(rest)
		k.text, rest = rest[:length], rest[length:]
	}
	r.checks = rest
	return k
}

func uint32At(text string) uint32 {
	_ = text[3]
	return uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
}

// uvarint reads a number in the format of encoding/binary. Records are built in this package, so they are always
// valid.
func uvarint(text string) (n uint32, rest string) {
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		n |= uint32(text[i]&0x7f) << shift
		if text[i] < 0x80 {
			return n, text[i+1:]
		}
	}
}

// pass reports whether a request passes all checks, and appends the values of the key if it does.
func (r record) pass(v *Values, key []string) (with []string, passes bool) {
	with = key
	passed := false // whether one of several alternatives has passed
	for k := r.next(); k.kind != noCheck; k = r.next() {
		passed = passed || k.passes(v)
		switch {
		case k.more:
			continue
		case !passed:
			return key, false
		case k.kind >= isThere:
			with = append(with, v.part(k))
		}
		passed = false
	}
	return with, true
}

func (k *check) passes(v *Values) bool {
	switch k.kind {
	case hasDefault:
		return v.values[domainSlot].text == penstock.DefaultDomain
	case isSegment, isRemains:
		return true // the path matches
	}
	have := &v.values[k.at]
	if !have.there {
		return k.kind == isMissing
	}
	switch k.kind {
	case isEqual:
		return have.text == k.text
	case isLike:
		return pattern.FitsWildcards(k.text, have.text)
	case isOnPath:
		return pattern.Path{Text: k.text}.Fits(have.text)
	case isOnBarePath:
		return pattern.Path{Text: k.text, Ignore: urlform.TrailingSlash}.Fits(have.text)
	case isWithin:
		return have.isAddress() && have.bits.within(k.text)
	}
	return true
}

// appendRecord writes the record of an item: conditions, the cheapest first, and the key.
func appendRecord(tape []byte, number, extra int, item *Item, s *slots) []byte {
	c := &item.Conditions
	if extra == 0 {
		tape = binary.LittleEndian.AppendUint32(tape, uint32(number))
	} else {
		tape = binary.LittleEndian.AppendUint32(tape, uint32(number)|hasExtra)
		tape = binary.LittleEndian.AppendUint32(tape, uint32(extra))
	}
	switch c.Domain {
	case "":
	case penstock.DefaultDomain:
		tape = append(tape, byte(hasDefault))
	default:
		tape = check{kind: isEqual, at: domainSlot, text: c.Domain}.append(tape)
	}
	for i, method := range c.Methods {
		tape = check{kind: isEqual, at: methodSlot, text: method, more: i < len(c.Methods)-1}.append(tape)
	}
	for i := range c.Attributes {
		a := &c.Attributes[i]
		for i := range a.Patterns {
			k := patternCheck(&a.Patterns[i])
			k.at, k.more = int32(a.slot), i < len(a.Patterns)-1
			tape = k.append(tape)
		}
	}
	if c.Path.Text != "" {
		k := check{kind: isOnPath, at: int32(c.pathSlot), text: c.Path.Text}
		if c.Path.Ignore&urlform.TrailingSlash != 0 {
			k.kind = isOnBarePath
		}
		tape = k.append(tape)
	}
	for i := range item.Key {
		tape = keyCheck(item.Key[i], c.Path, s).append(tape)
	}
	return append(tape, byte(noCheck))
}

func (k check) append(tape []byte) []byte {
	kind := byte(k.kind)
	if k.more {
		kind |= moreFlag
	}
	tape = binary.AppendUvarint(append(tape, kind), uint64(k.at))
	if isEqual <= k.kind && k.kind <= isOnBarePath {
		tape = append(binary.AppendUvarint(tape, uint64(len(k.text))), k.text...)
	}
	return tape
}

func patternCheck(p *pattern.Value) check {
	switch {
	case p.Network.IsValid():
		return check{kind: isWithin, text: networkText(p.Network)}
	case p.Wild:
		return check{kind: isLike, text: p.Text}
	}
	return check{kind: isEqual, text: p.Text}
}

func keyCheck(part KeyPart, p pattern.Path, s *slots) check {
	if w, ok := p.Wildcard(part.Name); ok {
		if w.Rest {
			return check{at: int32(w.Segment), kind: isRemains}
		}
		return check{at: int32(w.Segment), kind: isSegment}
	}
	slot := int32(s.ofKey(part, p.Ignore, nil))
	if part.Optional {
		return check{at: slot, kind: isMissing}
	}
	return check{at: slot, kind: isThere}
}
