package memstore

import (
	"math/bits"
	"unsafe"

	"github.com/penstock-io/penstock"
)

// An arena holds the lists of one shard: logs, leases, and counters too large for a slot. Lists are
// blocks of 4, 8, 16, … entries; blocks of one size share a page, large ones have a page each. Pages
// have no pointers inside, and one that is empty is given back.
type arena struct {
	budget *budget
	pages  []page          // page 0 is never used, so that block 0 means none
	unused uint32          // first of the indices whose page was given back, linked by next
	open   [classes]uint32 // first page of the class with a free block, linked by next and prev
}

const (
	smallestBits = 2  // 4 entries
	classes      = 17 // up to 262,144 entries: a log keeps up to twice MaxLog before it tidies up
	pageEntries  = 64
	offsetBits   = 16

	entrySize    = int64(unsafe.Sizeof(penstock.Entry{}))
	pageOverhead = int64(unsafe.Sizeof(page{})) * 2 // the slice of pages has slack
)

type page struct {
	entries    []penstock.Entry
	next, prev uint32
	taken      uint16 // blocks in use
	free       uint16 // offset of the first free block; its first entry's N is the offset of the next
	class      uint8
}

// noBlock ends the list of free blocks of a page. No page is that long unless it is a single block.
const noBlock = 1<<offsetBits - 1

// A block is page << offsetBits | offset. 40 bits are enough.
type block uint64

// classFor returns the class of blocks that hold n entries.
func classFor(n int) int { return max(0, bits.Len(uint(max(n, 1)-1))-smallestBits) }

func classSize(class int) int { return 1 << (smallestBits + class) }

// alloc returns a block for at least n entries, or 0 if the budget has no room.
func (a *arena) alloc(n int) block {
	class := classFor(n)
	if class >= classes {
		return 0
	}
	i := a.open[class]
	if i == 0 {
		if i = a.addPage(class); i == 0 {
			return 0
		}
	}
	p := &a.pages[i]
	offset := p.free
	p.free = uint16(p.entries[offset].N)
	p.taken++
	if p.free == noBlock {
		a.unlink(i)
	}
	return block(i)<<offsetBits | block(offset)
}

// free gives a block back.
func (a *arena) free(b block) {
	i, offset := uint32(b>>offsetBits), uint16(b)
	p := &a.pages[i]
	if p.free == noBlock {
		a.link(i)
	}
	p.entries[offset].N = int64(p.free)
	p.free = offset
	p.taken--
	// The last small page of its class stays, or a list that comes and goes would cost a page each time.
	lonely := p.next == 0 && p.prev == 0
	if p.taken == 0 && (!lonely || len(p.entries) > pageEntries) {
		a.dropPage(i)
	}
}

// trim gives back the empty pages that free has kept.
func (a *arena) trim() {
	for _, i := range a.open {
		if i != 0 && a.pages[i].taken == 0 {
			a.dropPage(i)
		}
	}
}

// entries returns the first n entries of a block, with the rest of it as their capacity.
func (a *arena) entries(b block, n int) []penstock.Entry {
	p := &a.pages[b>>offsetBits]
	offset := int(b & noBlock)
	return p.entries[offset : offset+n : offset+classSize(int(p.class))]
}

func (a *arena) addPage(class int) uint32 {
	size := classSize(class)
	length := max(size, pageEntries)
	if !a.budget.take(&a.budget.lists, pageBytes(length)) {
		return 0
	}
	if len(a.pages) == 0 {
		a.pages = append(a.pages, page{})
	}
	i := a.unused
	if i == 0 {
		i = uint32(len(a.pages))
		a.pages = append(a.pages, page{})
	} else {
		a.unused = a.pages[i].next
	}
	p := page{entries: make([]penstock.Entry, length), class: uint8(class)}
	for offset := 0; offset < length; offset += size {
		p.entries[offset].N = int64(offset + size)
	}
	p.entries[length-size].N = noBlock
	a.pages[i] = p
	a.link(i)
	return i
}

func (a *arena) dropPage(i uint32) {
	a.unlink(i)
	a.budget.lists.Add(-pageBytes(len(a.pages[i].entries)))
	a.pages[i] = page{next: a.unused}
	a.unused = i
}

func (a *arena) link(i uint32) {
	p := &a.pages[i]
	p.prev, p.next = 0, a.open[p.class]
	if p.next != 0 {
		a.pages[p.next].prev = i
	}
	a.open[p.class] = i
}

func (a *arena) unlink(i uint32) {
	p := &a.pages[i]
	if p.prev != 0 {
		a.pages[p.prev].next = p.next
	} else {
		a.open[p.class] = p.next
	}
	if p.next != 0 {
		a.pages[p.next].prev = p.prev
	}
	p.next, p.prev = 0, 0
}

func pageBytes(entries int) int64 { return int64(entries)*entrySize + pageOverhead }
