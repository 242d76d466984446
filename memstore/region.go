package memstore

import "unsafe"

// A region is the memory of all tables. Chunk c of every shard lies beside chunk c of the others:
//
//	chunk 0 of shard 0 | chunk 0 of shard 1 | … | chunk 1 of shard 0 | chunk 1 of shard 1 | …
//
// Subjects spread evenly, so all tables are of about the same length, and the region fills up from
// its beginning. Where a slot lies is worked out, not looked up. The region is address space only;
// it takes memory where it has been touched. Outside the garbage-collected heap, where the system
// allows, it costs the collector nothing and may be backed by huge pages: a lookup goes to a random
// place, and with small pages finding out where that is costs as much as going there.
type region struct {
	first     unsafe.Pointer
	stride    uintptr // from one chunk of a shard to its next
	maxChunks int     // of a shard
	mapped    *mapping
}

// A mapping is what the region was cut from. It is apart, so that it can be given back when nothing
// else is left.
type mapping struct{ memory []byte }

const hugePage = 2 << 20

func newRegion(maxBytes int64, shards int) *region {
	r := &region{stride: uintptr(shards) * unsafe.Sizeof(chunk{}), mapped: &mapping{}}
	// Half as many again as the mean is more than chance gives any shard; then what may overflow.
	r.maxChunks = int(maxBytes/int64(r.stride))*3/2 + 16
	size := int(r.stride) * r.maxChunks
	memory, err := mapMemory(size + hugePage)
	if err != nil {
		memory = make([]byte, size+hugePage)
	} else {
		r.mapped.memory = memory
	}
	r.first = unsafe.Pointer(unsafe.SliceData(memory))
	r.first = unsafe.Add(r.first, -uintptr(r.first)&(hugePage-1))
	return r
}

// table returns the empty table of a shard.
func (r *region) table(shard int) table {
	return table{first: unsafe.Add(r.first, uintptr(shard)*unsafe.Sizeof(chunk{})), stride: r.stride}
}

func (m *mapping) release() {
	if m.memory != nil {
		unmapMemory(m.memory)
	}
}
