package memstore

import (
	"encoding/binary"
	"math"

	"github.com/penstock-io/penstock"
)

// A slot is the state of one meter for one subject. A slot whose head is 0 is empty.
type slot struct {
	key
	head    uint64 // State.At << 12 | life code << 4 | flags
	payload uint64 // see shard.load; of a spilled slot, block << lengthBits | entries in it
}

const slotSize = 32

const (
	used    = 1 << iota // so that no head in use is 0
	pinned              // nothing remains: not to be evicted while it lives
	spilled             // the state is a block in the arena
	given               // written at a ticket's own instant: the real clock must not expire it

	flagBits   = 4
	lifeBits   = 8
	atShift    = flagBits + lifeBits
	lengthBits = 24
)

// A key names a slot: the subject and the meter's fingerprint, 128 bits together. Pairs with the
// same subject always differ; others do except with probability 2^-128.
type key struct {
	place uint64 // of the subject alone, so that all its limits are neighbours; tables are sorted by it
	name  uint64
}

// keyOf returns the key and the number that picks the shard. The seed is random and odd:
// multiplying loses nothing, and nobody outside can aim many subjects at one place, even where
// the hash of subjects has no secret.
func keyOf(s *penstock.Subject, fingerprint, seed uint64) (k key, shard uint64) {
	low, high := binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:])
	return key{place: low * seed, name: high ^ fingerprint}, high * seed
}

func (s *slot) at() penstock.Instant { return penstock.Instant(s.head >> atShift) }

func (s *slot) life() penstock.Instant {
	return penstock.Instant(penstock.CodeLife(uint8(s.head >> flagBits)))
}

// grace is how long a state that says nothing any more is kept, if nobody else needs the room. A
// caller that comes back soon finds its slot, and to update one is much cheaper than to add one.
const grace = penstock.Instant(5_000_000)

// deadAt reports whether the state has said nothing for a while, at an instant of the real clock; 0 is
// before everything.
func (s *slot) deadAt(now penstock.Instant) bool {
	return s.head&given == 0 && s.at()+s.life()+grace <= now
}

// left returns how long the state still says something. An instant that a ticket brought along
// and one of the real clock cannot be compared: there it is as if just written.
func (s *slot) left(now penstock.Instant, isGiven bool) penstock.Instant {
	if isGiven != (s.head&given != 0) {
		return max(1, s.life())
	}
	return s.at() + s.life() - now
}

// head packs what is common to all states. clear is when the state will say nothing any more.
func head(at, clear penstock.Instant, flags uint64) uint64 {
	at = min(at, penstock.MaxInstant) // a lease may end later than instants go
	return uint64(at)<<atShift | uint64(penstock.LifeCode(int64(clear-at)))<<flagBits | flags | used
}

// isWide tells meters whose state may need more than the payload of a slot.
func isWide(m *penstock.Meter) bool {
	return m.Kind == penstock.KindCounter && m.Count >= math.MaxUint32
}

// pack returns the payload of a state that fits into a slot.
func pack(kind penstock.Kind, st penstock.State) uint64 {
	if kind == penstock.KindCounter {
		return uint64(st.A)<<32 | uint64(st.B)
	}
	return uint64(st.A)
}

func unpack(kind penstock.Kind, at penstock.Instant, payload uint64) penstock.State {
	if kind == penstock.KindCounter {
		return penstock.State{At: at, A: int64(payload >> 32), B: int64(payload & math.MaxUint32)}
	}
	return penstock.State{At: at, A: int64(payload)}
}
