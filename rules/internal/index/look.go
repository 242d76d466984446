package index

// A look finds a division of a drawer that a call's value leads to: what is filed under the value as a
// whole, under what it begins or ends with, or under a network around it, of one length each; or
// under its path.
type look struct {
	kind labelKind
	slot int32
	at   int32 // the length in bytes, of networks in bits; the node that a path begins at
}

// lookFor returns the look that finds a label, but for where a path begins.
func lookFor(p label) look {
	l := look{kind: p.kind, slot: int32(p.slot)}
	switch p.kind {
	case withPrefix, withSuffix:
		l.at = int32(len(p.text))
	case inNetwork:
		l.at = int32(128 - p.network.Addr().BitLen() + p.network.Bits())
	}
	return l
}

// labelHash is the hash by which the label's look, of which this is the number, finds it.
func labelHash(p label, l look, number uint32) uint64 {
	if p.kind == inNetwork {
		return networkHash(bitsOf(p.network.Addr()), l.at, number)
	}
	return mixed(hashOf(p.text), uint64(number))
}

// hash returns the hash of what the look asks for in a call; 0 if the call does not have it, and of a
// path, which is walked.
func (l *look) hash(v *Values, number uint32) uint64 {
	have := &v.values[l.slot]
	if !have.there {
		return 0
	}
	length := int(l.at)
	switch l.kind {
	case withValue:
		return mixed(have.hash(), uint64(number))
	case withPrefix:
		if length <= len(have.text) {
			return mixed(hashOf(have.text[:length]), uint64(number))
		}
	case withSuffix:
		if length <= len(have.text) {
			return mixed(hashOf(have.text[len(have.text)-length:]), uint64(number))
		}
	case inNetwork:
		if have.isAddress() {
			return networkHash(have.bits, l.at, number)
		}
	}
	return 0
}

// edgeHash is that of a literal segment after a node of a path.
func edgeHash(node int32, segment string) uint64 { return mixed(hashOf(segment), uint64(node)) }
