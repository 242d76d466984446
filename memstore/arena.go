package memstore

import (
	"math/bits"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
)

// An arena holds the lists of one shard: logs, permits, and counters too large for a slot. A list is a
// block of 4, 8, 16, … entries. Blocks of one size share a page; a large block has its own page. Empty
// pages are returned.
type arena struct {
	memory *memory
	beside bool            // it is of a shard of records and reservations
	open   [classes]uint32 // first page of the class with a free block, linked by next and prev
}

const (
	smallestBits = 2  // 4 entries
	classes      = 17 // up to 262,144 entries: a log grows to twice MaxLog before it is compacted
	offsetBits   = 12

	entrySize = int64(unsafe.Sizeof(algorithm.Entry{}))
)

type page struct {
	next, prev uint32
	taken      uint16 // blocks in use
	free       uint16 // offset of the first free block; its first entry's Value is the offset of the next
	class      uint8
}

// noBlock ends the free list of a page. Only a page with a single block is long enough to reach this
// offset.
const noBlock = 1<<offsetBits - 1

// A block is page << offsetBits | offset. 40 bits are enough.
type block uint64

// classFor returns the class of blocks that hold n entries.
func classFor(n int) int { return max(0, bits.Len(uint(max(n, 1)-1))-smallestBits) }

func classSize(class int) int { return 1 << (smallestBits + class) }

// pageEntries returns how many entries the pages of a class have.
func pageEntries(class uint8) int { return max(frameEntries, classSize(int(class))) }

func (a *arena) page(i uint32) *page { return &a.memory.frames.pages[i] }

// alloc returns a block for at least n entries, or 0 if there is no room.
func (a *arena) alloc(n int, c claim) block {
	class := classFor(n)
	if class >= classes {
		return 0
	}
	i := a.open[class]
	if i == 0 {
		if i = a.addPage(class, c); i == 0 {
			return 0
		}
	}
	p := a.page(i)
	offset := p.free
	p.free = uint16(a.memory.frames.entries(i)[offset].Value)
	p.taken++
	if p.free == noBlock {
		a.unlink(i)
	}
	return block(i)<<offsetBits | block(offset)
}

// free returns a block to its page.
func (a *arena) free(b block) {
	i, offset := uint32(b>>offsetBits), uint16(b&noBlock)
	p := a.page(i)
	if p.free == noBlock {
		a.link(i)
	}
	a.memory.frames.entries(i)[offset].Value = int64(p.free)
	p.free = offset
	p.taken--
	// Keep the last small page of its class until trim, so that a list that comes and goes does not cost a
	// page each time.
	lonely := p.next == 0 && p.prev == 0
	if p.taken == 0 && (!lonely || pageEntries(p.class) > frameEntries) {
		a.dropPage(i)
	}
}

// trim returns the empty pages that free kept.
func (a *arena) trim() {
	for _, i := range a.open {
		if i != 0 && a.page(i).taken == 0 {
			a.dropPage(i)
		}
	}
}

// entries returns the first n entries of a block. Their capacity is the whole block.
func (a *arena) entries(b block, n int) []algorithm.Entry {
	i, offset := uint32(b>>offsetBits), int(b&noBlock)
	return a.memory.frames.entries(i)[offset : offset+n : offset+classSize(int(a.page(i).class))]
}

func (a *arena) addPage(class int, c claim) uint32 {
	size, length := classSize(class), pageEntries(uint8(class))
	i := a.memory.alloc(length/frameEntries, c, a.beside)
	if i == 0 {
		return 0
	}
	*a.page(i) = page{class: uint8(class)}
	entries := a.memory.frames.entries(i)
	for offset := 0; offset < length; offset += size {
		entries[offset].Value = int64(offset + size)
	}
	entries[length-size].Value = noBlock
	a.link(i)
	return i
}

func (a *arena) dropPage(i uint32) {
	a.unlink(i)
	a.memory.free(i, pageEntries(a.page(i).class)/frameEntries, a.beside)
}

func (a *arena) link(i uint32) {
	p := a.page(i)
	p.prev, p.next = 0, a.open[p.class]
	if p.next != 0 {
		a.page(p.next).prev = i
	}
	a.open[p.class] = i
}

func (a *arena) unlink(i uint32) {
	p := a.page(i)
	if p.prev != 0 {
		a.page(p.prev).next = p.next
	} else {
		a.open[p.class] = p.next
	}
	if p.next != 0 {
		a.page(p.next).prev = p.prev
	}
	p.next, p.prev = 0, 0
}
