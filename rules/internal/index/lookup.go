package index

// A lookup is a lookup that finds a division of a drawer by a request's value: by the whole value, by a prefix, a
// suffix or a network of one length, or by its path.
type lookup struct {
	kind labelKind
	slot int32
	at   int32 // length in bytes, or in bits for networks; for a path, the node at which it begins
}

// lookFor returns the look that finds a label, without the node at which a path begins.
func lookFor(p label) lookup {
	l := lookup{kind: p.kind, slot: int32(p.slot)}
	switch p.kind {
	case withPrefix, withSuffix:
		l.at = int32(len(p.text))
	case inNetwork:
		l.at = int32(128 - p.network.Addr().BitLen() + p.network.Bits())
	}
	return l
}

// labelHash returns the hash by which a label's look finds it. number is the number of the look.
func labelHash(p label, l lookup, number uint32) uint64 {
	if p.kind == inNetwork {
		return networkHash(bitsOf(p.network.Addr()), l.at, number)
	}
	return mixed(hashOf(p.text), uint64(number))
}

// hash returns the hash of the value that the look reads from a request. It returns 0 if the request lacks the
// value, and for a path, which is walked instead.
func (l *lookup) hash(v *Values, number uint32) uint64 {
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

// edgeHash returns the hash of a literal segment after a node of a path.
func edgeHash(node int32, segment string) uint64 { return mixed(hashOf(segment), uint64(node)) }
