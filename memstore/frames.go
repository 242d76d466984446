package memstore

import (
	"math"
	"math/bits"
	"os"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
)

// Frames are the memory of lists, in units of frameBytes. A page of an arena is one frame or several
// adjacent ones. Freed frames stay with the store, and count as used, until they are purged: taking memory
// from the system and returning it costs more than everything else.
type frames struct {
	first unsafe.Pointer
	pages []page   // indexed by their first frame; frame 0 is never used, so block 0 means none
	used  []uint64 // one bit per frame
	freed []uint64 // one bit per frame that is free but not yet returned to the system
	bytes int64    // of used and freed frames
	low   int      // all words of used before it are full
}

const (
	frameEntries = 256
	frameBytes   = frameEntries * entrySize
	maxFrames    = 1 << (40 - offsetBits) // see block
)

func (f *frames) init(first unsafe.Pointer, count, size int) {
	f.first = first
	f.pages = unsafe.Slice((*page)(unsafe.Add(first, int64(count)*frameBytes)), count)
	f.used, f.freed = make([]uint64, (count+63)/64), make([]uint64, (count+63)/64)
	f.used[0] = 1
	if rest := count % 64; rest != 0 {
		f.used[len(f.used)-1] |= math.MaxUint64 << rest
	}
	adviseHuge(unsafe.Slice((*byte)(first), size), false)
}

// entries returns all entries in the frames of a page.
func (f *frames) entries(i uint32) []algorithm.Entry {
	return unsafe.Slice((*algorithm.Entry)(unsafe.Add(f.first, int64(i)*frameBytes)), pageEntries(f.pages[i].class))
}

// alloc returns the first of n adjacent frames, or 0 if there is no room. beside says that they are for the lists of
// records and reservations.
func (m *memory) alloc(n int, c claim, beside bool) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &m.frames
	i := f.find(n)
	if i == 0 {
		return 0
	}
	fresh := func() int64 { return int64(n-count(f.freed, i, n)) * frameBytes }
	if !m.hasRoom(f.bytes, fresh(), c) && !(f.purge() > 0 && m.hasRoom(f.bytes, fresh(), c)) {
		return 0
	}
	f.bytes += fresh()
	for j := i; j < i+n; j++ {
		f.used[j/64] |= 1 << (j % 64)
		f.freed[j/64] &^= 1 << (j % 64)
	}
	if beside {
		m.beside += int64(n) * frameBytes
	}
	return uint32(i)
}

func (m *memory) free(i uint32, n int, beside bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if beside {
		m.beside -= int64(n) * frameBytes
	}
	f := &m.frames
	for j := int(i); j < int(i)+n; j++ {
		f.used[j/64] &^= 1 << (j % 64)
		f.freed[j/64] |= 1 << (j % 64)
	}
	f.low = min(f.low, int(i)/64)
}

// find returns the first of n adjacent free frames. It takes a single frame from the start and several from
// the end, so that small pages do not leave gaps between large ones.
func (f *frames) find(n int) int {
	if n == 1 {
		for ; f.low < len(f.used); f.low++ {
			if free := ^f.used[f.low]; free != 0 {
				return f.low*64 + bits.TrailingZeros64(free)
			}
		}
		return 0
	}
	run := 0
	for i := len(f.used)*64 - 1; i >= 0; i-- {
		if f.used[i/64] == math.MaxUint64 {
			run, i = 0, i/64*64
			continue
		}
		if f.used[i/64]>>(i%64)&1 != 0 {
			run = 0
		} else if run++; run == n {
			return i
		}
	}
	return 0
}

// count counts the bits that are set in n bits from i on.
func count(set []uint64, i, n int) (ones int) {
	for j := i; j < i+n; j++ {
		ones += int(set[j/64] >> (j % 64) & 1)
	}
	return ones
}

// purge returns freed frames to the system, in whole pages, and returns their number.
func (f *frames) purge() (purged int) {
	perPage := max(1, os.Getpagesize()/int(frameBytes))
	for i := 0; i < len(f.freed)*64; i++ {
		if f.freed[i/64] == 0 {
			i |= 63
			continue
		}
		end := i
		for end < len(f.freed)*64 && f.freed[end/64]>>(end%64)&1 != 0 {
			end++
		}
		first, last := (i+perPage-1)/perPage*perPage, end/perPage*perPage
		if first < last {
			release(unsafe.Add(f.first, int64(first)*frameBytes), (last-first)*int(frameBytes))
			purged += last - first
		}
		for ; first < last; first++ {
			f.freed[first/64] &^= 1 << (first % 64)
		}
		i = max(i, end-1)
	}
	f.bytes -= int64(purged) * frameBytes
	return purged
}

// purge returns freed frames to the system. The janitor and Expire call it.
func (m *memory) purge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames.purge()
}
