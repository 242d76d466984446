package memstore

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
)

const (
	chunkBits  = 7
	chunkSlots = 1 << chunkBits
	chunkBytes = int64(unsafe.Sizeof(chunk{}))

	// tailSlots is the number of slots at the end that are not the home of any key. They take the overflow
	// of the last homes.
	tailSlots = 24
)

type chunk [chunkSlots]slot

// A table is a hash table with ordered linear probing: slots lie at or after their home, sorted by place,
// the greatest first. So a search ends at the first slot that sorts later, deleting needs no tombstones,
// and rebuilding at another size is one pass from left to right.
type table struct {
	first  unsafe.Pointer // chunk; the others follow in strides
	stride uintptr
	chunks uint32
	homes  uint32 // places are mapped evenly onto this many slots
	count  uint32 // slots in use
	cursor uint32 // where sweeping continues
}

// rows returns how many chunks the table has, without those it has overflowed into.
func (t *table) rows() uint32 { return (t.homes + tailSlots) >> chunkBits }

func (t *table) size() uint32 { return t.chunks << chunkBits }

func (t *table) at(i uint32) *slot {
	return (*slot)(unsafe.Add(t.first, uintptr(i>>chunkBits)*t.stride+uintptr(i&(chunkSlots-1))*slotSize))
}

// index is the inverse of at.
func (t *table) index(s *slot) uint32 {
	offset := uintptr(unsafe.Pointer(s)) - uintptr(t.first)
	return uint32(offset/t.stride<<chunkBits + offset%t.stride/slotSize)
}

func (t *table) chunk(i uint32) *chunk { return (*chunk)(unsafe.Add(t.first, uintptr(i)*t.stride)) }

func (t *table) home(place uint64) uint32 { return homeOf(place, t.homes) }

func homeOf(place uint64, homes uint32) uint32 {
	high, _ := bits.Mul64(place, uint64(homes))
	return homes - 1 - uint32(high)
}

// fetch starts to fetch the slots of a place without waiting for them. It reads without the lock how long the
// table is, which may be out of date.
func (t *table) fetch(place uint64) {
	if homes := atomic.LoadUint32(&t.homes); canPrefetch && homes != 0 {
		prefetch(unsafe.Pointer(t.at(homeOf(place, homes))))
	}
}

// find returns the slot of the key, or nil.
func (t *table) find(k key) *slot {
	for i, size := t.home(k.place), t.size(); i < size; i++ {
		s := t.at(i)
		if s.key == k && s.head != 0 {
			return s
		}
		if s.place < k.place || s.head == 0 {
			return nil
		}
	}
	return nil
}

// insert adds a slot whose key is not in the table and returns its address. The slots after it move on by
// one, up to the first empty slot. If there is none, the table gets another chunk at its end.
func (t *table) insert(s slot) (_ *slot, grown bool) {
	i, size := t.home(s.place), t.size()
	for i < size && t.at(i).head != 0 && t.at(i).place >= s.place {
		i++
	}
	end := i
	for end < size && t.at(end).head != 0 {
		end++
	}
	if grown = end == size; grown {
		t.chunks++
	}
	t.moveOn(i, end)
	t.count++
	at := t.at(i)
	*at = s
	return at, grown
}

// remove empties slot i. The slots that were pushed behind it move back by one.
func (t *table) remove(i uint32) {
	end, size := i+1, t.size()
	for end < size && t.at(end).head != 0 && t.home(t.at(end).place) != end {
		end++
	}
	t.moveBack(i, end)
	t.count--
	*t.at(end - 1) = slot{}
}

// moveOn moves the slots from i up to end by one place, onto the one at end.
func (t *table) moveOn(i, end uint32) {
	for {
		c := t.chunk(end / chunkSlots)
		first := end - end%chunkSlots
		if i >= first {
			copy(c[i-first+1:], c[i-first:end-first])
			return
		}
		copy(c[1:], c[:end-first])
		c[0] = *t.at(first - 1)
		end = first - 1
	}
}

// moveBack moves the slots between i and end back by one place, onto the one at i.
func (t *table) moveBack(i, end uint32) {
	for {
		c := t.chunk(i / chunkSlots)
		next := i - i%chunkSlots + chunkSlots
		if end <= next {
			copy(c[i%chunkSlots:], c[i%chunkSlots+1:chunkSlots-(next-end)])
			return
		}
		copy(c[i%chunkSlots:], c[i%chunkSlots+1:])
		c[chunkSlots-1] = *t.at(next)
		i = next
	}
}

// rebuild gives the table the given number of chunks, or more if its end overflows, and drops the slots
// that drop selects. It works in place: if the table grows, it first moves all slots up by as much, so that
// it never overwrites a slot it has not read yet. A home moves up by no more than the number of added
// homes.
func (t *table) rebuild(chunks uint32, drop func(*slot) bool) {
	homes := chunks<<chunkBits - tailSlots
	shift := uint32(0) // in chunks, as homes grow by whole ones
	if t.homes != 0 && homes > t.homes {
		shift = (homes - t.homes) / chunkSlots
		for i := t.chunks; i > 0; i-- {
			*t.chunk(i - 1 + shift) = *t.chunk(i - 1)
		}
	}
	first, end := shift<<chunkBits, (t.chunks+shift)<<chunkBits
	atomic.StoreUint32(&t.homes, homes) // fetchAhead reads it without the lock
	t.count, t.cursor = 0, 0
	next := uint32(0) // the first slot not written yet
	for i := first; i < end; i++ {
		from := t.at(i)
		if from.head == 0 || drop(from) {
			continue
		}
		s := *from // copied only now: the argument of drop would escape to the heap
		place := max(next, t.home(s.place))
		for ; next < place; next++ {
			*t.at(next) = slot{}
		}
		*t.at(place) = s
		t.count++
		next++
	}
	t.chunks = max(chunks, (next+chunkSlots-1)/chunkSlots)
	for end = max(end, t.size()); next < end; next++ {
		*t.at(next) = slot{}
	}
}

// empty turns a table without slots into one without chunks, its initial state.
func (t *table) empty() {
	t.chunks, t.cursor = 0, 0
	atomic.StoreUint32(&t.homes, 0)
}

// dead counts the slots that have expired at the instant.
func (t *table) dead(now algorithm.Instant) uint32 {
	return t.matching(func(s *slot) bool { return s.deadAt(now) })
}

// matching counts the slots for which is returns true.
func (t *table) matching(is func(*slot) bool) (n uint32) {
	for i := range t.size() {
		if s := t.at(i); s.head != 0 && is(s) {
			n++
		}
	}
	return n
}

// At most 7 in 8 of a table's homes may be in use. The slots between a key and its home are then mostly
// within the lines that fetchAhead asks for, and a key still takes less than 40 bytes.

func (t *table) hasRoom(n uint32) bool { return uint64(t.count+n)*8 <= uint64(t.homes)*7 }

func chunksFor(n uint32) uint32 {
	homes := (uint64(n)*8 + 6) / 7
	return uint32((homes + tailSlots + chunkSlots - 1) / chunkSlots)
}
