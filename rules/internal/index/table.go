package index

import (
	"hash/maphash"
	"math/bits"
)

// A table maps labels to refs or nodes. It stores only a part of their hashes: a label costs eight bytes, and
// finding one is one read of memory. So a lookup may also return the target of another label. The candidates
// found there fail their checks.
type table struct{ places []tableSlot }

// A tableSlot is a slot of the table for a hash. to is 0 if it is free.
type tableSlot struct {
	tag uint32
	to  int32
}

// Hashes use a new key in every process, and are never 0.
var (
	hashSeed = maphash.MakeSeed()
	hashKey  = maphash.String(hashSeed, "key")
)

func hashOf(text string) uint64 { return maphash.String(hashSeed, text) | 1<<63 }

func mixed(a, b uint64) uint64 {
	high, low := bits.Mul64(a^hashKey, b^0x9e3779b97f4a7c15)
	return (high ^ low) | 1<<63
}

// newTable returns a table of leads, at least half of it free.
func newTable(leads []tableEntry) (t table) {
	if n := len(leads); n > 0 {
		t.places = make([]tableSlot, 1<<bits.Len(uint(2*n-1)))
	}
	for _, l := range leads {
		t.add(l.hash, l.to)
	}
	return t
}

func (t *table) add(hash uint64, to int32) {
	at := t.first(hash)
	for ; t.places[at].to != 0; at = t.after(at) {
	}
	t.places[at] = tableSlot{uint32(hash >> 32), to}
}

// find returns the target of a hash and the place at which to continue the search. to is 0 if there are no more.
func (t *table) find(hash uint64, at uint32) (to int32, next uint32) {
	for {
		p := t.places[at]
		at = t.after(at)
		if p.to == 0 || p.tag == uint32(hash>>32) {
			return p.to, at
		}
	}
}

// first returns the place at which the search begins. The table must not be empty.
func (t *table) first(hash uint64) uint32 { return uint32(hash) & uint32(len(t.places)-1) }

func (t *table) after(at uint32) uint32 { return (at + 1) & uint32(len(t.places)-1) }
