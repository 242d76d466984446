package memstore

import "github.com/penstock-io/penstock"

// spills tells charges whose state is a list, or may be.
func (it *item) spills() bool { return !it.meter.Kind.Fixed() || isWide(it.meter) }

// makeBlock sees to it that the list has room for what a ticket with so many lists can add: an entry
// for each, should all be of the same state, and one that a log begins with.
func (it *item) makeBlock(lists int, r *room) error {
	sh := it.sh
	if sh.lists == nil {
		sh.lists = &arena{budget: sh.budget}
	}
	s := sh.find(it.key)
	var list []penstock.Entry
	if s != nil && s.head&spilled != 0 {
		list = sh.list(s)
	}
	need := len(list) + lists + 1
	if need <= cap(list) {
		return nil
	}
	b := sh.allocEvicting(need, r)
	if b == 0 {
		return sh.full()
	}
	it.block = b
	if s != nil {
		it.adopt(sh.find(it.key)) // it may have moved
	}
	return nil
}

// allocEvicting returns a block for n entries, at the price of other lists if need be; 0 if even
// that did not help.
func (sh *shard) allocEvicting(n int, r *room) block {
	const tries = 8
	for range tries {
		if b := sh.lists.alloc(n); b != 0 {
			return b
		}
		if !sh.evict(r, hasList) {
			return 0
		}
	}
	return sh.lists.alloc(n)
}

// adopt makes the item's block the slot's and moves what the slot holds there.
func (it *item) adopt(s *slot) {
	sh := it.sh
	n := 0
	if s.head&spilled != 0 {
		list := sh.list(s)
		n = copy(sh.lists.entries(it.block, len(list)), list)
		sh.lists.free(s.block())
	} else if it.meter.Kind.Fixed() { // a counter that outgrows its slot
		st := unpack(it.meter.Kind, s.at(), s.payload)
		n = 1
		sh.lists.entries(it.block, 1)[0] = penstock.Entry{At: penstock.Instant(st.A), N: st.B}
	}
	s.head |= spilled
	s.setList(it.block, n)
	it.block = 0
}

// add inserts the item's slot, with its block if it has one.
func (it *item) add() *slot {
	s := slot{key: it.key, head: used}
	if it.block != 0 {
		n := 0
		if it.meter.Kind.Fixed() {
			n = 1
		}
		s.head |= spilled
		s.setList(it.block, n)
		it.block = 0
	}
	return it.sh.add(s)
}

// wrote notes that the slot is to be dated. Until then it is as long-lived as can be.
func (it *item) wrote(s *slot, at penstock.Instant) {
	it.written, it.at = true, at
	s.head = head(at, at+penstock.Instant(it.meter.Life), s.head&spilled)
}

// applyList is apply for logs and leases. It weighs anew: an expired list may have made room.
func (w *work) applyList(it *item, f *penstock.Found, taken bool) {
	m := it.meter
	s := it.sh.find(it.key)
	if it.writes(taken) {
		if s == nil {
			s = it.add()
		}
		list := it.sh.list(s)
		if m.Kind == penstock.KindLog {
			list = w.record(m, list, it.cost, taken)
		} else {
			list = w.lease(m, list, taken)
		}
		s.setList(s.block(), len(list))
		it.wrote(s, list[len(list)-1].At)
	}
	if m.Kind == penstock.KindLog {
		f.State = m.LogState(it.sh.list(s), w.now, it.cost, f.Passes)
	} else {
		f.State = m.LeaseState(it.sh.list(s), w.now, it.cost, f.Passes)
	}
}

func (w *work) record(m *penstock.Meter, log []penstock.Entry, cost int64, taken bool) []penstock.Entry {
	weight := m.WeighLog(log, w.now, cost)
	if !taken && !m.CountDenied {
		cost = 0 // only mended
	}
	return m.RecordLog(log, weight, cost)
}

func (w *work) lease(m *penstock.Meter, leases []penstock.Entry, taken bool) []penstock.Entry {
	if taken {
		return m.TakeLease(leases, w.now, w.ticket.Nonce)
	}
	return m.MendLeases(leases, w.now)
}

// tighten moves a list that has become much shorter into a smaller block, if there is one. Not before
// the end of a ticket, for which the room was made.
func (it *item) tighten(s *slot) {
	if it.meter.Kind.Fixed() {
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
