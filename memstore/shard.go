package memstore

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A shard holds a part of the subjects under one lock. All methods need the lock, unless they say otherwise. Its fields
// are in three cache lines: what every charge writes, what every charge reads, and the rest.
type shard struct {
	mu  sync.Mutex // see lock and unlock
	hot hotSlot
	_   [8]byte

	table
	memory   *memory
	shared   uint32        // slots that are shared
	hotPlace atomic.Uint64 // the place of the slot that was last hot
	turn     atomic.Uint64 // odd while the denial is true

	denial    denial
	lists     *arena // created on first use
	reclaimed uint32 // when the shard was reclaimed, see reclaimUnit
	_         [16]byte
}

var _ = [1]struct{}{}[unsafe.Sizeof(shard{})-3*64]

// sweepSlots is how many slots are swept for each new key. With four, about a quarter of the slots in a
// table under constant arrival and expiry are expired.
const sweepSlots = 4

// load returns the state of a fixed-size kind. The slot may be nil.
func (sh *shard) load(s *slot, kind algorithm.Kind) algorithm.State {
	if s == nil {
		return algorithm.State{}
	}
	if s.isSpilled() {
		wide := sh.list(s)[0]
		return algorithm.State{At: s.at(), Used: int64(wide.At), Previous: wide.Value}
	}
	return unpack(kind, s.at(), s.payload)
}

// list returns the entries of a spilled slot, or nil without a slot.
func (sh *shard) list(s *slot) []algorithm.Entry {
	if s == nil {
		return nil
	}
	return sh.lists.entries(s.block(), int(s.payload&(1<<lengthBits-1)))
}

func (s *slot) block() block { return block(s.payload >> lengthBits) }

func (s *slot) setList(b block, n int) { s.payload = uint64(b)<<lengthBits | uint64(n) }

// forget removes the slot of a key, if there is one.
func (sh *shard) forget(k key) {
	if s := sh.find(k); s != nil {
		sh.drop(sh.index(s))
	}
}

// add inserts an empty slot for the key. Room for it must have been made.
func (sh *shard) add(s slot) *slot {
	at, grown := sh.insert(s)
	if grown {
		sh.memory.overflowInto(&sh.table, sh.chunks-1)
	}
	if s.isShared() {
		sh.shared++
	}
	return at
}

// roomRequest says for which ticket and at which instant room is made.
type roomRequest struct {
	ticket *storage.Ticket
	seed   uint64
	now    algorithm.Instant
	held   []uint64 // the shards that are locked; nil: those of the ticket's subjects
}

func (r *roomRequest) isGiven() bool { return r.ticket.Now != 0 }

// clock returns the instant at which state may be forgotten. If the ticket brings its own instant, that is
// 0, which is before everything.
func (r *roomRequest) clock() algorithm.Instant {
	if r.isGiven() {
		return 0
	}
	return r.now
}

// makeRoom ensures that n keys can be added. It moves slots.
func (sh *shard) makeRoom(n uint32, r *roomRequest) error {
	now := sh.prepareRoom(r)
	fits := func() bool { return sh.hasRoom(n) || sh.grow(n, now, forState) && sh.hasRoom(n) }
	if fits() || sh.reclaimFor(r, anyShare, fits) {
		return nil
	}
	return sh.full()
}

// prepareRoom starts the janitor, removes a few expired slots, and returns the instant of the request's clock.
func (sh *shard) prepareRoom(r *roomRequest) algorithm.Instant {
	now := r.clock()
	if janitor := &sh.memory.store.janitor; now != 0 && !janitor.started.Load() {
		janitor.start(sh.memory.store)
	}
	sh.sweep(sweepSlots, now)
	return now
}

// hasRoom reports whether n keys fit. Some slots are reserved for shared counters: when the first is
// needed, other shards may not have left enough memory for another chunk. While there are shared counters,
// an eighth of the table is theirs.
func (sh *shard) hasRoom(n uint32) bool { return n <= sh.free() }

func (sh *shard) free() uint32 {
	free := int64(sh.homes)*7/8 - int64(sh.count) - int64(sh.keptRoom(0))
	if sh.shared > 0 {
		free = min(free, int64(sh.homes)*6/8-int64(sh.count-sh.shared))
	}
	return uint32(max(0, free))
}

// chunksToHold returns how many chunks a shard needs for n keys and the slots reserved beside them.
func chunksToHold(n uint32) uint32 { return chunksFor(n + n/48 + keptSlots + 1) }

// grow enlarges the table by a sixteenth, or to the size that n more keys need. If an eighth of the table
// has expired, it only removes the expired slots. With too little memory, it grows by less. Some memory is
// reserved for shared counters.
func (sh *shard) grow(n uint32, now algorithm.Instant, c claim) bool {
	have := sh.chunks
	if have == 0 {
		return sh.growTo(chunksToHold(n), 0, c)
	}
	dead := uint32(0)
	for step := max(1, have/16); step > 0; step /= 2 {
		if !sh.memory.couldExtend(&sh.table, have, have+step, c) {
			continue // before visiting every slot
		}
		if dead == 0 {
			dead = sh.dead(now)
		}
		chunks := chunksToHold(sh.count - dead + n)
		if chunks > have || dead*8 < sh.count {
			chunks = max(chunks, have+step)
		} else {
			chunks = have
		}
		if sh.growTo(chunks, now, c) {
			return true
		}
	}
	return false
}

// growTo gives the table more chunks, if there is memory for them. While it grows, a table that has
// overflowed needs more chunks than it ends up with.
func (sh *shard) growTo(chunks uint32, now algorithm.Instant, c claim) bool {
	have, top := sh.chunks, max(chunks, sh.chunks)
	if have > 0 {
		top += have - sh.rows()
	}
	if top+overflow > sh.memory.maxChunks || !sh.memory.extend(&sh.table, have, top, c) {
		return false
	}
	sh.rebuild(chunks, sh.dropping(func(s *slot) bool { return s.deadAt(now) }))
	sh.memory.cut(&sh.table, sh.chunks, top)
	return true
}

// dropping returns a function for rebuild that drops unwanted slots, with their lists.
func (sh *shard) dropping(unwanted func(*slot) bool) func(*slot) bool {
	return func(s *slot) bool {
		if !unwanted(s) {
			return false
		}
		sh.discard(s)
		return true
	}
}

// shrink drops unwanted slots and makes the table smaller if it has chunks to spare. Moving everything is
// worth it only if that frees at least one chunk in share.
func (sh *shard) shrink(unwanted func(*slot) bool, share uint32) {
	have, rows := sh.chunks, sh.rows()
	left := sh.count - sh.matching(unwanted)
	chunks := chunksToHold(left + left/16 + 1)
	if share == noShare || chunks > rows-rows/share {
		chunks = rows
	}
	if left == sh.count && chunks == rows && (left > 0 || share == noShare) {
		return
	}
	sh.rebuild(chunks, sh.dropping(unwanted))
	if left == 0 && share != noShare {
		sh.empty()
	}
	sh.memory.cut(&sh.table, sh.chunks, have)
}

// sweep visits the next n slots and removes the expired ones.
func (sh *shard) sweep(n int, now algorithm.Instant) {
	if now == 0 || sh.chunks == 0 {
		return
	}
	for range n {
		if sh.cursor >= sh.size() {
			sh.cursor = 0
		}
		if s := sh.at(sh.cursor); s.head != 0 && s.deadAt(now) {
			sh.drop(sh.cursor) // and visit the slot that moves here next
		} else {
			sh.cursor++
		}
	}
}

// drop removes slot i with its list.
func (sh *shard) drop(i uint32) {
	sh.discard(sh.at(i))
	sh.remove(i)
}

// discard frees what belongs to a slot that is removed.
func (sh *shard) discard(s *slot) {
	sh.release(s)
	if s.isShared() {
		sh.shared--
	}
}

// release frees the list of a slot.
func (sh *shard) release(s *slot) {
	if s.isSpilled() {
		sh.lists.free(s.block())
	}
}

// save writes the state of a fixed-size kind. date must follow.
func (sh *shard) save(s *slot, kind algorithm.Kind, st algorithm.State) {
	if s.isSpilled() {
		sh.list(s)[0] = algorithm.Entry{At: algorithm.Instant(st.Used), Value: st.Previous}
		return
	}
	s.payload = pack(kind, st)
}

// date writes the instant of the state and when it may be forgotten.
func date(s *slot, at, clear algorithm.Instant, isGiven bool) {
	s.head = head(at, clear, s.head&sortMask|givenFlag(isGiven))
}
