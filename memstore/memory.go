package memstore

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/penstock-io/penstock/storage"
)

// A memory holds all state of a store: one mapping of address space, which takes memory only where it is in
// use. It lies outside the garbage-collected heap, so it costs the collector nothing and can be returned to
// the system.
//
// The tables come first. Chunk c of every shard lies next to chunk c of the others:
//
//	chunk 0 of shard 0 | chunk 0 of shard 1 | … | chunk 1 of shard 0 | chunk 1 of shard 1 | …
//
// Subjects spread evenly, so all tables have about the same length and fill the mapping from its beginning.
// The address of a slot is computed, not looked up. Memory is taken from the system, and counted, in
// extents. In a large store an extent is a huge page: a lookup goes to a random address, and with small
// pages the address translation costs as much as the read.
//
// The tables of records and reservations lie behind them in the same way. Their shards are those from firstApart on.
// The frames of the lists follow, in small pages, and then the bookkeeping of each frame.
type memory struct {
	store  *Store
	mapped *mapping

	first     unsafe.Pointer // start of the tables
	stride    uintptr        // from one chunk of a shard to its next
	apart     unsafe.Pointer // start of the tables of records and reservations
	maxChunks uint32         // maximum length of a shard's table
	extent    uintptr        // bytes

	neighbourhoods uint64 // see sharedKey

	max   int64 // of tables and lists together
	fixed int64 // bytes of everything else

	// mu is locked last, when a table or a list changes its size.
	mu     sync.Mutex
	tables int64    // bytes of the extents in use
	beside int64    // of tables and lists, what records and reservations use
	chunks []uint32 // chunks in use in each extent
	base   int      // extents of the first chunks of all shards, which always count
	frames frames

	evicted atomic.Int64
	refused atomic.Int64
	helped  atomic.Uint64 // see nextToHelp
}

// Shares of the memory, as divisors.
const (
	// keptApart is the share that neither tables nor lists can take from the other: a flood of one kind of
	// limit leaves room for a few of the other.
	keptApart = 16

	// keptForShared is the share reserved for shared counters, see share.go.
	keptForShared = 8

	// mostApart is the share that what may be forgotten can use: records of requests, and reservations that are closed
	// or made for a refund only.
	mostApart = 2
)

// A claim says what memory is taken for, and so how much must be left.
type claim uint8

const (
	forState   claim = iota // counters, bans, permits, open reservations
	forShared               // counters that several keys share
	forRecords              // records and reservations, while others can be forgotten instead
)

const (
	smallestExtent = 4 << 10
	hugePage       = 2 << 20
	smallestPage   = 4 << 10 // on any system
)

func newMemory(maxBytes int64, shards int) (*memory, error) {
	m := &memory{stride: uintptr(shards) * unsafe.Sizeof(chunk{})}
	m.extent = uintptr(min(max(1<<(bits.Len64(uint64(maxBytes/64))-1), smallestExtent), hugePage))
	levels := maxBytes / int64(m.stride)
	m.neighbourhoods = neighbourhoods(levels)
	m.maxChunks = uint32(min(levels+2*overflow+2, 1<<24))

	region := alignUp(int64(m.stride)*int64(m.maxChunks), hugePage)
	tables := 2 * region
	count := min(maxBytes/frameBytes+1, maxFrames)
	lists := count * frameBytes
	pages := alignUp(count*int64(unsafe.Sizeof(page{})), smallestPage)
	memory, err := mapMemory(hugePage + tables + lists + pages)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space, about three times MaxBytes: %w", hugePage+tables+lists+pages, err)
	}
	m.mapped = &mapping{memory}
	m.first = unsafe.Pointer(unsafe.SliceData(memory))
	m.first = unsafe.Add(m.first, -uintptr(m.first)&(hugePage-1))
	adviseHuge(unsafe.Slice((*byte)(m.first), tables), m.extent == hugePage)
	m.apart = unsafe.Add(m.first, region)
	m.frames.init(unsafe.Add(m.first, tables), int(count), int(lists+pages))

	m.chunks = make([]uint32, tables/int64(m.extent))
	m.base = int((m.stride + m.extent - 1) / m.extent)
	m.fixed = 2*int64(shards)*int64(unsafe.Sizeof(shard{})+unsafe.Sizeof(arena{})) + int64(len(m.chunks))*4 + pages + count/4
	// Tables overflow into another chunk without a check. That takes at most one chunk of each shard.
	m.max = maxBytes - m.fixed - 2*int64(m.stride+m.extent)
	m.tables = int64(m.base) * int64(m.extent)
	return m, nil
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

// table returns the empty table of a shard.
func (m *memory) table(shard int) table {
	first, inRow := m.first, int(m.stride/unsafe.Sizeof(chunk{}))
	if shard >= inRow {
		first, shard = m.apart, shard-inRow
	}
	return table{first: unsafe.Add(first, uintptr(shard)*unsafe.Sizeof(chunk{})), stride: m.stride}
}

// isApart reports whether a table holds records and reservations.
func (m *memory) isApart(t *table) bool { return uintptr(t.first) >= uintptr(m.apart) }

// extentOf returns the extent of a table's chunk.
func (m *memory) extentOf(t *table, chunk uint32) int {
	return int((uintptr(t.first) - uintptr(m.first) + uintptr(chunk)*m.stride) / m.extent)
}

// extend takes memory for the chunks of a table from one index to another. It reports whether there was
// enough; if not, it takes nothing. Extents in use cost nothing, but there must still be room for them.
// Otherwise tables could grow into the chunks that others overflowed into, and overflow in turn. The first
// chunk of a table of states is always available.
func (m *memory) extend(t *table, from, to uint32, c claim) bool {
	fresh, ok := m.extendInto(t, from, to, c)
	for _, e := range fresh {
		populate(unsafe.Slice((*byte)(unsafe.Add(m.first, uintptr(e)*m.extent)), m.extent))
	}
	return ok
}

// extendInto is extend, and returns the extents that were not in use before, if they are huge pages.
func (m *memory) extendInto(t *table, from, to uint32, c claim) (fresh []int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	need := m.missing(t, from, to)
	isFirst := to <= 1 && !m.isApart(t)
	if !isFirst && !m.hasRoom(m.tables, need, c) && !(m.frames.purge() > 0 && m.hasRoom(m.tables, need, c)) {
		return nil, false
	}
	for i := from; i < to && m.extent == hugePage; i++ {
		if e := m.extentOf(t, i); m.chunks[e] == 0 {
			fresh = append(fresh, e)
		}
	}
	m.take(t, from, to)
	return fresh, true
}

// couldExtend reports whether extend would succeed, without taking anything.
func (m *memory) couldExtend(t *table, from, to uint32, c claim) bool {
	if to+overflow > m.maxChunks {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hasRoom(m.tables, m.missing(t, from, to), c)
}

// overflowInto takes memory for one chunk from what is reserved for overflow.
func (m *memory) overflowInto(t *table, chunk uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.take(t, chunk, chunk+1)
}

// missing returns the bytes of the extents that are not in use yet.
func (m *memory) missing(t *table, from, to uint32) (bytes int64) {
	last := -1
	for c := from; c < to; c++ {
		if e := m.extentOf(t, c); e != last && e >= m.base && m.chunks[e] == 0 {
			bytes += int64(m.extent)
			last = e
		}
	}
	return bytes
}

func (m *memory) take(t *table, from, to uint32) {
	bytes := m.missing(t, from, to)
	m.tables += bytes
	if m.isApart(t) {
		m.beside += bytes
	}
	for c := from; c < to; c++ {
		m.chunks[m.extentOf(t, c)]++
	}
}

// cut returns the chunks of a table from one index to another. They must be empty.
func (m *memory) cut(t *table, from, to uint32) {
	if from >= to {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := from; c < to; c++ {
		e := m.extentOf(t, c)
		if m.chunks[e]--; m.chunks[e] > 0 {
			continue
		}
		release(unsafe.Add(m.first, uintptr(e)*m.extent), int(m.extent))
		if e >= m.base {
			m.tables -= int64(m.extent)
			if m.isApart(t) {
				m.beside -= int64(m.extent)
			}
		}
	}
}

// hasRoom reports whether a part, tables or lists, may take more bytes.
func (m *memory) hasRoom(part, bytes int64, c claim) bool {
	most := m.max
	if c != forShared {
		most -= m.max / keptForShared
	}
	if c == forRecords && m.beside+bytes > m.max/mostApart {
		return false
	}
	return part+bytes <= most-m.max/keptApart && m.tables+m.frames.bytes+bytes <= most
}

// used returns the bytes that count against MaxBytes.
func (m *memory) used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fixed + m.tables + m.frames.bytes
}

// A mapping is the address space of a memory. It has no pointer to the store, so it can be unmapped when
// the store is collected.
type mapping struct{ memory []byte }

func (m *mapping) unmap() { unmapMemory(m.memory) }

// overflow is the number of chunks by which a table may overflow. Chance alone needs less than one; this is
// what one ticket could add.
const overflow = storage.MaxGroups*(storage.MaxCharges+guardSlots)/chunkSlots + 1
