package memstore

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A slot is the state of one meter for one subject, or the record of one of its requests or reservations. A
// slot whose head is 0 is empty.
type slot struct {
	key
	head    uint64 // State.At << 12 | life code << 4 | given | sort
	payload uint64 // see shard.load; in a spilled slot, block << lengthBits | entries in it
}

const slotSize = 32

// The sorts of slots. A slot with a list is spilled too: it has the sort below and that bit.
const (
	apart   = 1 // a request or a reservation: its place is not its subject's
	state   = 2 // of a subject: a limit, or its strikes
	shared  = 3 // shared by several subjects that have no state of their own, see share.go; never a list
	banned  = 4 // a ban; never a list
	spilled = 4 // with a sort above: a block in the arena

	sortMask = 7
	given    = 8 // written at an instant that a ticket brought: the real clock must not expire it

	flagBits   = 4
	lifeBits   = 8
	atShift    = flagBits + lifeBits
	lengthBits = 24
)

func (s *slot) isApart() bool   { return s.head&3 == apart }
func (s *slot) isSpilled() bool { return s.head&sortMask > banned }

// A key identifies a slot: the subject and the meter's fingerprint, 128 bits together. Keys with the same
// subject always differ; others differ except with probability 2^-128. Fingerprints and subjects may differ
// in a single bit, so they are multiplied to keep one from cancelling the other.
type key struct {
	place uint64 // from the subject alone, so that all its limits are adjacent; tables are sorted by it
	name  uint64
}

// keyOf returns the key and the number that selects the shard. The seed is random and odd: multiplying by
// it loses nothing, and an attacker cannot aim many subjects at one place, even if the hash of subjects has
// no secret.
func keyOf(s *storage.Subject, fingerprint, seed uint64) (k key, shard uint64) {
	return keyOfWords(binary.LittleEndian.Uint64(s[:8]), binary.LittleEndian.Uint64(s[8:]), fingerprint, seed)
}

// keyOfWords is keyOf for a subject as two words.
func keyOfWords(low, high, fingerprint, seed uint64) (k key, shard uint64) {
	return key{place: low * seed, name: high ^ fingerprint*seed}, high * seed
}

// subjectAt is the inverse of keyOf.
func (s *Store) subjectAt(k key, fingerprint uint64) (subject storage.Subject) {
	binary.LittleEndian.PutUint64(subject[:8], k.place*inverse(s.seed))
	binary.LittleEndian.PutUint64(subject[8:], k.name^fingerprint*s.seed)
	return subject
}

// tagAt returns the tag of the subject with this key.
func (s *Store) tagAt(k key) uint32 { return uint32(k.place * inverse(s.seed)) }

func callKey(s *storage.Subject, call *storage.CallID, seed uint64) key {
	return keyApart(s, binary.LittleEndian.Uint64(call[:8]), binary.LittleEndian.Uint64(call[8:]), seed)
}

func reservationKey(s *storage.Subject, nonce, seed uint64) key {
	const reservation = 0x7265736572766564 // "reserved", in place of half of a request's id
	return keyApart(s, nonce, reservation, seed)
}

// keyApart multiplies the parts of the key. Otherwise subjects and ids that are small numbers would cancel
// each other out.
func keyApart(s *storage.Subject, low, high, seed uint64) key {
	const odd = 0x9e3779b97f4a7c15
	name := (bits.RotateLeft64(high*odd, 32) ^ low) * odd
	return key{
		place: (binary.LittleEndian.Uint64(s[:8]) ^ low) * seed,
		name:  binary.LittleEndian.Uint64(s[8:]) ^ name,
	}
}

func (s *slot) at() algorithm.Instant { return algorithm.Instant(s.head >> atShift) }

func (s *slot) life() algorithm.Instant {
	return algorithm.Instant(algorithm.CodeLife(uint8(s.head >> flagBits)))
}

// grace is how long expired state is kept if its room is not needed. A client that returns soon finds its
// slot, and updating a slot is much cheaper than adding one.
const grace = algorithm.Instant(5_000_000)

// deadAt reports whether the state expired more than grace before an instant of the real clock. Instant 0
// is before everything.
func (s *slot) deadAt(now algorithm.Instant) bool {
	return s.head&given == 0 && s.at()+s.life()+grace <= now
}

// extend keeps the state until the current limit is clear, because a limit that drained faster may have
// written it, and reports whether that changed the slot. Given and real instants cannot be compared. The slot may
// be nil.
func (s *slot) extend(clear algorithm.Instant, isGiven bool) (changed bool) {
	if s == nil || isGiven != (s.head&given != 0) || s.at()+s.life() >= clear {
		return false
	}
	s.head = head(s.at(), clear, s.head&(1<<flagBits-1))
	return true
}

// left returns how long the state still has an effect. An instant that a ticket brought cannot be compared
// with the real clock; in that case the state counts as just written.
func (s *slot) left(now algorithm.Instant, isGiven bool) algorithm.Instant {
	if isGiven != (s.head&given != 0) {
		return max(1, s.life())
	}
	return s.at() + s.life() - now
}

// head packs what all states have in common. clear is when the state expires; flags are the sort, and
// given.
func head(at, clear algorithm.Instant, flags uint64) uint64 {
	at = min(at, algorithm.MaxInstant) // a permit may end later than the last instant
	return uint64(at)<<atShift | uint64(algorithm.LifeCode(int64(clear-at)))<<flagBits | flags
}

// givenFlag returns the flag of state written at an instant that the ticket brought.
func givenFlag(isGiven bool) uint64 {
	if isGiven {
		return given
	}
	return 0
}

// isWide reports whether the meter's state may need more than the payload of a slot.
func isWide(m *algorithm.Meter) bool {
	return m.Kind == algorithm.KindCounter && m.Most >= math.MaxUint32
}

// pack returns the payload of a state that fits into a slot. A count that does not fit exceeds the limit, as one may
// that another store has counted: it becomes the largest that fits, which exceeds the limit as well.
func pack(kind algorithm.Kind, st algorithm.State) uint64 {
	if kind == algorithm.KindCounter {
		return uint64(min(st.Used, math.MaxUint32))<<32 | uint64(min(st.Previous, math.MaxUint32))
	}
	return uint64(st.Used)
}

func unpack(kind algorithm.Kind, at algorithm.Instant, payload uint64) algorithm.State {
	if kind == algorithm.KindCounter {
		return algorithm.State{At: at, Used: int64(payload >> 32), Previous: int64(payload & math.MaxUint32)}
	}
	return algorithm.State{At: at, Used: int64(payload)}
}
