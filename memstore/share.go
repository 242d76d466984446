package memstore

import (
	"math"
	"math/bits"

	"github.com/penstock-io/penstock/algorithm"
)

// A full store keeps limiting. It never forgets a live counter to make room. Instead, a key for which there
// is no room shares a counter with other keys of its limit. The meter decides by that counter as by any
// other, so it never undercounts: the counter holds at least what each of its keys has consumed. Keys that
// share may be denied because of each other.
//
// A key shares the counter of its neighbourhood: the keys whose places lie in the same range. There are
// four levels, each tried if the one before has no room for another counter: the keys of a rule and limit
// in a small neighbourhood; in a larger one; of all rules with such a limit; and of all of these in the
// whole shard. A new counter, shared or for one key, starts with the value of the shared counter that was
// used in its place.
//
// One row of counters is enough. A count-min sketch has several and uses the smallest of a key's counters,
// which helps if there are more counters than heavy keys. With ten times more keys than fit there are
// fewer, and then more rows make it worse.

const (
	sharedLevels = 4
	larger       = 64 // small neighbourhoods in a larger one
)

// neighbourhoods returns the number of small neighbourhoods in a shard with at most this many chunks: as
// many as the memory reserved for shared counters has room for.
func neighbourhoods(chunks int64) uint64 {
	return uint64(chunks) * chunkSlots * 9 / (16 * keptForShared)
}

// sharedFingerprint returns the fingerprint of the counters that keys of a limit share. The keys of a rule may have
// different limits with the same fingerprint. A count in a window means the same for all of them. But a bucket drains
// at the rate of the limit that reads it and holds no more than its capacity, and a log that counts denied requests
// drops what exceeds its limit. So one limit would forget what keys of another have consumed. Therefore only limits
// with the same numbers share these, and a limit whose numbers change begins with new ones.
func sharedFingerprint(m *algorithm.Meter) uint64 {
	switch {
	case m.Kind == algorithm.KindBucket, m.Kind == algorithm.KindLeaky, m.Kind == algorithm.KindInterval:
	case m.Kind == algorithm.KindLog && m.CountDenied:
	default:
		return m.Fingerprint
	}
	const odd, another = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	return m.Fingerprint ^ uint64(m.Count)*odd ^ bits.RotateLeft64(uint64(m.Most)*another, 32)
}

// sharedKey returns the key of the counter that keys of a limit share.
func (m *memory) sharedKey(k key, fingerprint uint64, tag uint32, level int) key {
	const odd = 0x9e3779b97f4a7c15
	count := [sharedLevels]uint64{m.neighbourhoods, m.neighbourhoods/larger + 1, m.neighbourhoods/larger + 1, 1}[level]
	if level > 1 {
		tag = 0
	}
	number, _ := bits.Mul64(k.place, count)
	return key{
		place: number * (math.MaxUint64 / count),
		name:  (uint64(tag)<<2|uint64(level+1))*odd ^ fingerprint*m.store.seed,
	}
}

func (s *slot) isShared() bool { return s.head&sortMask == shared }

// findShared returns the shared counter of a key that has no counter of its own, or nil.
func (sh *shard) findShared(k key, fingerprint uint64, tag uint32) *slot {
	for level := range sharedLevels {
		if s := sh.find(sh.memory.sharedKey(k, fingerprint, tag, level)); s != nil {
			return s
		}
	}
	return nil
}

// share returns the key of the counter to charge instead of the key's own. That counter exists, or there is
// room to add it beside others that are about to be added.
func (sh *shard) share(k key, fingerprint uint64, tag uint32, r *roomRequest, adding *uint32) (_ key, ok bool) {
	for level := range sharedLevels {
		other := sh.memory.sharedKey(k, fingerprint, tag, level)
		found := sh.find(other) != nil
		if found || sh.hasSharedRoom(level, *adding+1, r) {
			if !found {
				*adding++
			}
			return other, true
		}
	}
	return key{}, false
}

// keptSlots is the minimum number of slots that a table reserves for shared counters.
const keptSlots = 8

// keptRoom returns how many slots are reserved for the levels after this one.
func (sh *shard) keptRoom(level int) uint32 {
	kept := max(keptSlots, sh.homes/64)
	return [sharedLevels]uint32{kept, kept * 3 / 4, kept / 2, 0}[level]
}

// hasSharedRoom reports whether n shared counters can be added.
func (sh *shard) hasSharedRoom(level int, n uint32, r *roomRequest) bool {
	fits := func() bool { return sh.table.hasRoom(n + sh.keptRoom(level)) }
	return fits() || level == 0 && sh.grow(n, r.clock(), forShared) && fits()
}

// placeOne returns the slot for a new state of one key: its own, or a shared one.
func (sh *shard) placeOne(k key, fingerprint uint64, tag uint32, r *roomRequest) (*slot, error) {
	if sh.makeRoom(1, r) == nil {
		return sh.add(slot{key: k, head: state}), nil
	}
	adding := uint32(0)
	other, ok := sh.share(k, fingerprint, tag, r, &adding)
	if !ok {
		return nil, sh.refuse()
	}
	if s := sh.find(other); s != nil {
		return s, nil
	}
	return sh.add(slot{key: other, head: shared}), nil
}

// canShare reports whether the charge may use a shared counter. Permits may not, because each can be
// released, nor may states that do not fit into a slot.
func (it *item) canShare() bool { return it.Meter.Kind != algorithm.KindLeases && !isWide(it.Meter) }

// slot is [slotRef.slot]. Another group of the ticket may have added the key's own counter after the item was
// assigned a shared one.
func (it *item) slot() *slot {
	if it.shared {
		if s := it.sh.find(it.own); s != nil {
			return s
		}
	}
	return it.slotRef.slot()
}

// findSlot is slot, and notes whether there is one. For a key without its own counter, it returns the shared
// one.
func (it *item) findSlot() *slot {
	s := it.slot()
	it.missing = s == nil
	if s == nil && it.sh.shared > 0 && it.canShare() {
		own := it.key
		if it.shared {
			own = it.own
		}
		return it.sh.findShared(own, sharedFingerprint(it.Meter), it.tag)
	}
	return s
}

// share makes the item charge a shared counter.
func (it *item) share(r *roomRequest, adding *uint32) bool {
	k, ok := it.sh.share(it.key, sharedFingerprint(it.Meter), it.tag, r, adding)
	if ok {
		it.key, it.own, it.shared = k, it.key, true
	}
	return ok
}

// divide distributes the room in a shard for a ticket that needs more. Permits, charges that can be settled and very
// large counters need their own slots, or the ticket is refused. Other limits get shared counters. Strikes come last,
// because the limits work without them: a key beyond capacity is limited but not banned, since a ban must not affect
// others.
func (w *workspace) divide(sh *shard, taken bool, r *roomRequest) error {
	free, adding := sh.free(), uint32(0)
	first := 0
	for g := range w.ticket.Groups {
		items := w.items[first:][:len(w.ticket.Groups[g].Charges)]
		first += len(items)
		if items[0].sh != sh {
			continue
		}
		if len(w.guards) > 0 {
			if n := w.guards[g].budget.newSlots(); n > free {
				return sh.refuse()
			} else {
				free -= n
			}
		}
		for i := range items {
			it := &items[i]
			switch {
			case !it.missing || !it.mayWrite(taken):
			case free > 0:
				free--
			case it.reserved || !it.canShare() || !it.share(r, &adding):
				return sh.refuse()
			}
		}
	}
	w.divideAmongPenalties(sh, free)
	return nil
}

// divideAmongPenalties gives the free slots to strikes, and withdraws those that get none.
func (w *workspace) divideAmongPenalties(sh *shard, free uint32) {
	for g := range w.guards {
		v := &w.guards[g]
		if n := v.penalty.newSlots(); v.penalty.sh == sh && n > free {
			w.leaveUnstruck(g)
		} else if v.penalty.sh == sh {
			free -= n
		}
	}
}

// leaveUnstruck withdraws a strike for which there is no room.
func (w *workspace) leaveUnstruck(g int) {
	v := &w.guards[g]
	v.penalty.wanted, v.unstruck = false, true
	w.sights[g].Penalty, _, _ = w.ticket.Groups[g].Penalty.Weigh(algorithm.PenaltyState{}, w.now)
}

// newSlots returns 1 if the spot needs a new slot, and 0 otherwise.
func (p *slotRef) newSlots() uint32 {
	if p.wanted && p.missing {
		return 1
	}
	return 0
}

// A shared log is a slot with two counts: what was recorded in the window of its date and in the window
// before, with windows counted from the epoch. Nothing older counts. It is read as a log with all of the
// first count at that date and all of the second at the end of its window, so no entry is earlier than it
// was.

// sharedLog returns the log of a shared slot, with room for more entries.
func sharedLog(s *slot, window int64) []algorithm.Entry {
	log := make([]algorithm.Entry, 1, 8)
	if before := int64(s.payload & math.MaxUint32); before > 0 {
		start := s.at() - s.at()%algorithm.Instant(window)
		log = append(log, algorithm.Entry{At: start - 1, Value: before})
	}
	if current := int64(s.payload >> 32); current > 0 {
		log = append(log, algorithm.Entry{At: s.at(), Value: log[len(log)-1].Value + current})
	}
	return log
}

// setSharedLog is the inverse of sharedLog, for any log.
func (s *slot) setSharedLog(log []algorithm.Entry, m *algorithm.Meter) {
	newest, window := log[len(log)-1].At, algorithm.Instant(m.Window)
	start := newest - newest%window
	var before, current int64
	for i := 1; i < len(log); i++ {
		switch n := log[i].Value - log[i-1].Value; {
		case log[i].At >= start:
			current += n
		case log[i].At >= start-window:
			before += n
		}
	}
	most := int64(math.MaxUint32)
	if m.CountDenied { // keep denied requests only up to one above the limit
		most = m.Most + 1
	}
	current = min(current, most)
	before = min(before, most-current)
	s.payload = uint64(current)<<32 | uint64(before)
}

// coarsen makes room for n more entries in a log that cannot grow: the last entry of a period replaces all
// entries in it. Periods are as short as possible. It returns nil if there is no room even with a single
// period.
func coarsen(log []algorithm.Entry, n int, window algorithm.Instant) []algorithm.Entry {
	newest := log[len(log)-1]
	first := 1
	for first < len(log)-1 && log[first].At <= newest.At-window {
		first++ // it has left the window: the last such entry is the new base
	}
	log = log[:copy(log, log[first-1:])]
	for stretch := window/algorithm.Instant(cap(log)) + 1; len(log)+n > cap(log) && len(log) > 2; stretch *= 2 {
		kept := 1
		for i := 1; i < len(log); i++ {
			if i+1 == len(log) || stretch <= window && log[i].At/stretch != log[i+1].At/stretch {
				log[kept] = log[i]
				kept++
			}
		}
		log = log[:kept]
	}
	if len(log)+n > cap(log) {
		return nil
	}
	return log
}
