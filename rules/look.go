package rules

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

// labelHash is the hash by which the label's look finds it.
func labelHash(p label, l look) uint64 {
	if p.kind == inNetwork {
		return networkHash(p.network.Addr(), l.at)
	}
	return hashOf(p.text)
}

// hash returns the hash of what the look asks for in a call; 0 if the call does not have it, and of a
// path, which is walked.
func (l *look) hash(v *callValues) uint64 {
	have := &v.values[l.slot]
	if !have.there {
		return 0
	}
	switch l.kind {
	case withValue:
		return have.hash()
	case withPrefix:
		if length := int(l.at); length <= len(have.text) {
			return hashOf(have.text[:length])
		}
	case withSuffix:
		if length := int(l.at); length <= len(have.text) {
			return hashOf(have.text[len(have.text)-length:])
		}
	case inNetwork:
		if addr, ok := have.address(); ok {
			return networkHash(addr, l.at)
		}
	}
	return 0
}

// edgeHash is that of a literal segment after a node of a path. Nodes are told apart from looks.
func edgeHash(node int32, segment string) uint64 {
	return mixed(hashOf(segment), ^uint64(node))
}
