package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// spills tells charges whose state is a list, or may be.
func (it *item) spills() bool { return !it.shared && (!it.Meter.Kind.Fixed() || isWide(it.Meter)) }

// list returns the entries of the item's slot, which may be a shared one; nil of no slot.
func (it *item) list(s *slot) []algorithm.Entry {
	if s == nil || !s.isShared() {
		return it.sh.list(s)
	}
	log := sharedLog(s, it.Meter.Window)
	if !it.shared {
		it.carried = log
	}
	return log
}

// makeBlock sees to it that the list has room for what a ticket with so many lists can add: an entry
// for each, should all be of the same state, and one that a log begins with.
func (it *item) makeBlock(lists int, r *room) error {
	sh := it.sh
	sh.needLists()
	s := it.slot()
	var list []algorithm.Entry
	if s != nil && s.isSpilled() {
		list = sh.list(s)
	}
	need := max(len(list), len(it.carried)) + lists + 1
	if need <= cap(list) {
		return nil
	}
	b := sh.allocEvicting(need, r)
	if b == 0 {
		return it.doWithout(lists+1, r)
	}
	it.block = b
	if s != nil {
		it.adopt(it.slot()) // it may have moved
	}
	return nil
}

// doWithout makes do where there is no room for a longer list: a log that is there becomes coarser, and
// one that is new is shared. Permits cannot be kept otherwise.
func (it *item) doWithout(n int, r *room) error {
	s := it.slot()
	if s == nil && it.canShare() && !it.reserved && it.share(r, new(uint32)) {
		return nil
	}
	if s != nil && it.Meter.Kind == algorithm.KindLog {
		if log := coarsen(it.sh.list(s), n, algorithm.Instant(it.Meter.Window)); log != nil {
			s.setList(s.block(), len(log))
			return nil
		}
	}
	return it.sh.refuse()
}

// needLists makes the arena when it is first needed.
func (sh *shard) needLists() {
	if sh.lists == nil {
		sh.lists = &arena{memory: sh.memory}
	}
}

// allocEvicting returns a block for n entries, at the price of other lists if need be; 0 if even
// that did not help.
func (sh *shard) allocEvicting(n int, r *room) block {
	const tries = 8
	b := sh.lists.alloc(n)
	if b != 0 || sh.reclaimFor(r, noShare, func() bool { b = sh.lists.alloc(n); return b != 0 }) {
		return b
	}
	for range tries {
		if !sh.evict(r, hasList) {
			return 0
		}
		if b := sh.lists.alloc(n); b != 0 {
			return b
		}
	}
	return 0
}

// adopt makes the item's block the slot's and moves what the slot holds there.
func (it *item) adopt(s *slot) {
	sh := it.sh
	n := 0
	if s.isSpilled() {
		list := sh.list(s)
		n = copy(sh.lists.entries(it.block, len(list)), list)
		sh.lists.free(s.block())
	} else if it.Meter.Kind.Fixed() { // a counter that outgrows its slot
		st := unpack(it.Meter.Kind, s.at(), s.payload)
		n = 1
		sh.lists.entries(it.block, 1)[0] = algorithm.Entry{At: algorithm.Instant(st.Used), Value: st.Previous}
	}
	s.head |= spilled
	s.setList(it.block, n)
	it.block = 0
}

// add inserts the item's slot, with its block if it has one.
func (it *item) add() *slot {
	s := slot{key: it.key, head: state}
	if it.shared {
		s.head = shared
		if len(it.carried) > 1 {
			newest := it.carried[len(it.carried)-1].At
			s.head = head(newest, newest, shared)
			s.setSharedLog(it.carried, it.Meter)
		}
	}
	if it.block != 0 {
		n := copy(it.sh.lists.entries(it.block, len(it.carried)), it.carried)
		if it.Meter.Kind.Fixed() {
			n = 1
		}
		s.head |= spilled
		s.setList(it.block, n)
		it.block = 0
	}
	return it.sh.add(s)
}

// wrote notes that the slot is to be dated. Until then it is as long-lived as can be.
func (it *item) wrote(s *slot, at algorithm.Instant) {
	it.written, it.at = true, at
	s.head = head(at, at+algorithm.Instant(it.Meter.Life), s.head&sortMask)
}

// applyList is apply for logs and leases. It weighs anew: an expired list may have made room.
func (w *work) applyList(it *item, f *storage.Found, taken bool) {
	s := it.slot()
	if it.writes(taken) {
		if s == nil {
			s = it.add()
		}
		list := it.list(s)
		if it.Meter.Kind == algorithm.KindLog {
			list, f.Amount = w.record(it, list, taken)
		} else {
			list = w.lease(it.Meter, list, taken)
		}
		it.setList(s, list)
	}
	if s == nil {
		s = it.look()
	}
	f.State = it.sum(it.list(s), w.now, it.Need(), f.Passes)
}

// setList notes that the slot's list has changed; it is not empty.
func (it *item) setList(s *slot, list []algorithm.Entry) {
	if s.isShared() {
		s.setSharedLog(list, it.Meter)
	} else {
		s.setList(s.block(), len(list))
	}
	it.wrote(s, list[len(list)-1].At)
}

// sum is what a list says to a cost.
func (it *item) sum(list []algorithm.Entry, now algorithm.Instant, cost int64, passes bool) algorithm.State {
	if it.Meter.Kind == algorithm.KindLog {
		return it.Meter.LogState(list, now, cost, passes)
	}
	return it.Meter.LeaseState(list, now, cost, passes)
}

// record adds to a log what is taken, or counted though denied; else it is only mended.
func (w *work) record(it *item, log []algorithm.Entry, taken bool) (_ []algorithm.Entry, amount int64) {
	m := it.Meter
	weight := m.WeighLog(log, w.now, it.Need())
	switch {
	case taken:
		amount = m.LogAmount(weight, it.Charge)
	case m.CountDenied:
		return m.RecordDenied(log, weight, it.Cost), 0
	}
	return m.RecordLog(log, weight, amount), amount
}

func (w *work) lease(m *algorithm.Meter, leases []algorithm.Entry, taken bool) []algorithm.Entry {
	if taken {
		return m.TakeLease(leases, w.now, w.ticket.Nonce)
	}
	return m.MendLeases(leases, w.now)
}

// tighten moves a list that has become much shorter into a smaller block, if there is one. Not before
// the end of a ticket, for which the room was made.
func (it *item) tighten(s *slot) {
	if it.Meter.Kind.Fixed() || s.isShared() {
		return
	}
	list := it.sh.list(s)
	if len(list)*4 > cap(list) || cap(list) == classSize(0) {
		return
	}
	if it.block = it.sh.lists.alloc(2 * len(list)); it.block != 0 {
		it.adopt(s)
	}
}
