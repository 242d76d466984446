package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// isList reports whether the charge's state is a list, or may become one.
func (it *item) isList() bool { return !it.shared && (!it.Meter.Kind.Fixed() || isWide(it.Meter)) }

// list returns the entries of the item's slot, which may be a shared one, or nil without a slot.
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

// makeBlock ensures that the list has room for what a ticket with this number of lists can add: one entry
// for each, in case all have the same state, and one that a log begins with.
func (it *item) makeBlock(lists int, r *roomRequest) error {
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
	b := sh.allocReclaiming(need, r, forState)
	if b == 0 {
		return it.doWithout(lists+1, r)
	}
	it.block = b
	if s != nil {
		it.adopt(it.slot()) // it may have moved
	}
	return nil
}

// doWithout handles a list that cannot grow: an existing log becomes coarser, and a new one is shared.
// Permits cannot be kept in any other way, so they are refused.
func (it *item) doWithout(n int, r *roomRequest) error {
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

// needLists creates the arena on first use.
func (sh *shard) needLists() {
	if sh.lists == nil {
		sh.lists = &arena{memory: sh.memory, beside: sh.isApart()}
	}
}

// allocReclaiming returns a block for n entries, removing expired state if necessary, or 0 if even that does not help.
func (sh *shard) allocReclaiming(n int, r *roomRequest, c claim) block {
	b := sh.lists.alloc(n, c)
	if b == 0 {
		sh.reclaimFor(r, noShare, func() bool { b = sh.lists.alloc(n, c); return b != 0 })
	}
	return b
}

// adopt gives the item's block to the slot and moves the slot's contents into it.
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

// noteWritten notes that the slot has to be dated. Until then it has the longest possible life.
func (it *item) noteWritten(s *slot, at algorithm.Instant) {
	it.written, it.at = true, at
	s.head = head(at, at+algorithm.Instant(it.Meter.Life), s.head&sortMask)
}

// applyList is apply for logs and permits. It weighs again, because expired lists may have been removed to
// make room.
func (w *workspace) applyList(it *item, f *storage.ChargeResult, taken bool) {
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
		s = it.findSlot()
	}
	f.State = it.sum(it.list(s), w.now, it.Need(), f.Passes)
}

// setList notes that the slot's list has changed. The list must not be empty.
func (it *item) setList(s *slot, list []algorithm.Entry) {
	if s.isShared() {
		s.setSharedLog(list, it.Meter)
	} else {
		s.setList(s.block(), len(list))
	}
	it.noteWritten(s, list[len(list)-1].At)
}

// sum returns the state of a list for a cost.
func (it *item) sum(list []algorithm.Entry, now algorithm.Instant, cost int64, passes bool) algorithm.State {
	if it.Meter.Kind == algorithm.KindLog {
		return it.Meter.LogState(list, now, cost, passes)
	}
	return it.Meter.LeaseState(list, now, cost, passes)
}

// record adds to a log what is admitted, or counted although denied; otherwise it only repairs the log.
func (w *workspace) record(it *item, log []algorithm.Entry, taken bool) (_ []algorithm.Entry, amount int64) {
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

func (w *workspace) lease(m *algorithm.Meter, leases []algorithm.Entry, taken bool) []algorithm.Entry {
	if taken {
		return m.TakeLease(leases, w.now, w.ticket.Nonce)
	}
	return m.MendLeases(leases, w.now)
}

// shrinkList moves a list that has become much shorter into a smaller block, if one is available. It runs only
// at the end of a ticket, because room was made for the ticket.
func (it *item) shrinkList(s *slot) {
	if it.Meter.Kind.Fixed() || s.isShared() {
		return
	}
	list := it.sh.list(s)
	if len(list)*4 > cap(list) || cap(list) == classSize(0) {
		return
	}
	if it.block = it.sh.lists.alloc(2*len(list), forState); it.block != 0 {
		it.adopt(s)
	}
}
