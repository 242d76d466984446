package memstore

import (
	"math/bits"
	"unsafe"

	"github.com/penstock-io/penstock"
)

const (
	chunkBits  = 7
	chunkSlots = 1 << chunkBits
	chunkBytes = int64(unsafe.Sizeof(chunk{})) + 16 // with the pointer to it, in a slice with some slack

	// tailSlots at the end are nobody's home: they take what the last homes overflow by.
	tailSlots = 24
)

type chunk [chunkSlots]slot

// A table is a hash table with ordered linear probing: slots lie at or after their home, sorted by
// place, the greatest first. So a search ends at the first slot that sorts behind, deleting leaves no
// marks, and rebuilding at another size is one pass from left to right.
type table struct {
	chunks []*chunk
	homes  uint32 // places are mapped onto this many slots, evenly
	count  uint32 // slots in use
	cursor uint32 // where sweeping goes on
}

func (t *table) size() uint32 { return uint32(len(t.chunks)) << chunkBits }

func (t *table) at(i uint32) *slot { return &t.chunks[i>>chunkBits][i&(chunkSlots-1)] }

func (t *table) home(place uint64) uint32 {
	high, _ := bits.Mul64(place, uint64(t.homes))
	return t.homes - 1 - uint32(high)
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

// insert puts a slot whose key is not there yet and returns where it is. What is behind it moves
// on by one, up to the first empty slot. If there is none, the table gets a chunk more at its end.
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
		t.chunks = append(t.chunks, new(chunk))
	}
	t.moveOn(i, end)
	t.count++
	at := t.at(i)
	*at = s
	return at, grown
}

// remove empties slot i; what had been pushed behind it moves back by one.
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
		c := t.chunks[end/chunkSlots]
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
		c := t.chunks[i/chunkSlots]
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

// rebuild gives the table the given number of chunks, or more if its end overflows, and drops what
// the function says. Chunks that have been read are written again.
func (t *table) rebuild(chunks int, drop func(*slot) bool) {
	old, spent := t.chunks, 0
	t.chunks = make([]*chunk, 0, chunks+1)
	t.homes = uint32(chunks)<<chunkBits - tailSlots
	t.count, t.cursor = 0, 0
	extend := func(read int) {
		if spent < read {
			*old[spent] = chunk{}
			t.chunks = append(t.chunks, old[spent])
			spent++
			return
		}
		t.chunks = append(t.chunks, new(chunk))
	}
	next := uint32(0)
	for read, c := range old {
		for j := range c {
			s := &c[j]
			if s.head == 0 || drop(s) {
				continue
			}
			i := max(next, t.home(s.place))
			for i >= t.size() {
				extend(read)
			}
			*t.at(i) = *s
			t.count++
			next = i + 1
		}
	}
	for len(t.chunks) < chunks {
		extend(len(old))
	}
}

// dead counts what the instant has made meaningless.
func (t *table) dead(now penstock.Instant) (n uint32) {
	for _, c := range t.chunks {
		for j := range c {
			if c[j].head != 0 && c[j].deadAt(now) {
				n++
			}
		}
	}
	return n
}

// Of a table's homes, 15 in 16 may be in use. To find a key costs one cache miss even then, as the
// slots between it and its home are its neighbours; to add one costs more the fuller the table is.

func (t *table) hasRoom(n uint32) bool { return uint64(t.count+n)*16 <= uint64(t.homes)*15 }

func chunksFor(n uint32) int {
	homes := (int(n)*16 + 14) / 15
	return (homes + tailSlots + chunkSlots - 1) / chunkSlots
}
