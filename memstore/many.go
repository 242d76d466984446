package memstore

import (
	"slices"
	"sync"

	"github.com/penstock-io/penstock"
)

// work is the scratch of a ticket with several charges, with lists or with guards, and of a settlement.
type work struct {
	store    *Store
	ticket   *penstock.Ticket
	now      penstock.Instant
	items    []item // one for each charge, in the ticket's order
	found    []penstock.Found
	guards   []guard // one for each group; none if no group is guarded
	sights   []penstock.Sight
	shards   []uint64 // distinct, ascending, locked
	receipts []penstock.Receipt

	own       penstock.Ticket // as which a settlement or adopted knowledge is laid out
	ownGroup  [1]penstock.Group
	ownCharge [1]penstock.Charge
}

// An item is one charge.
type item struct {
	spot
	penstock.Charge
	tag      uint32           // of the subject's rule
	carried  []penstock.Entry // what a shared log says, for a log that is added
	alone    bool
	reserved bool // it can be settled, so its counter cannot be shared
	shared   bool // it is charged to a counter that it shares
	own      key  // of an item that is shared, which has the shared counter's
	barred   bool // by a ban: it is weighed, but leaves no trace
	repaired bool
	written  bool
	at       penstock.Instant // of what was written
}

var works = sync.Pool{New: func() any { return new(work) }}

func (s *Store) takeMany(t *penstock.Ticket, out *penstock.Outcome) error {
	w := works.Get().(*work)
	w.store, w.ticket = s, t
	w.list()
	w.lock()
	err := w.decide(out)
	w.unlock()
	w.forget()
	works.Put(w)
	return err
}

// list lays the charges and guards out.
func (w *work) list() {
	guarded := false
	for i := range w.ticket.Groups {
		g := &w.ticket.Groups[i]
		guarded = guarded || g.Guarded()
		for j, c := range g.Charges {
			k, index := w.store.locate(&g.Subject, c.Meter)
			w.items = append(w.items, item{spot: spot{key: k, sh: &w.store.shards[index]}, Charge: c, alone: g.Alone, reserved: g.Reserve != 0, tag: tagOf(&g.Subject)})
			if j == 0 {
				w.shards = append(w.shards, index)
			}
		}
	}
	w.found = slices.Grow(w.found, len(w.items))[:len(w.items)]
	if guarded {
		w.listGuards()
	}
}

// lock takes the locks in ascending order, so that tickets that share shards do not wait in a ring.
func (w *work) lock() {
	if len(w.shards) > 1 {
		slices.Sort(w.shards)
		w.shards = slices.Compact(w.shards)
	}
	for _, index := range w.shards {
		w.store.shards[index].mu.Lock()
	}
}

func (w *work) unlock() {
	for i := range w.items {
		w.items[i].letGo()
	}
	for i := range w.guards {
		w.guards[i].letGo()
	}
	for _, index := range w.shards {
		w.store.shards[index].mu.Unlock()
	}
}

func (w *work) forget() {
	clear(w.items) // of their pointers
	clear(w.guards)
	*w = work{items: w.items[:0], found: w.found[:0], guards: w.guards[:0], sights: w.sights[:0], shards: w.shards[:0], receipts: w.receipts[:0]}
}

func (w *work) decide(out *penstock.Outcome) error {
	w.now = w.store.instant(w.ticket)
	w.weighGuards()
	passes := w.weighAll()
	w.planGuards(passes)
	if err := w.makeRoom(passes); err != nil {
		return err
	}
	for i := range w.items {
		if !w.items[i].alone {
			w.apply(&w.items[i], &w.found[i], passes)
		}
	}
	w.decideAlone()
	out.Settle(w.ticket, w.now, w.found, w.sightsOrNil())
	w.dateAll(out.Decisions)
	w.writeGuards(out)
	return nil
}

// dateAll dates what was written by what the caller is told, and has what was only looked at kept as
// long as that says.
func (w *work) dateAll(decisions []penstock.Decision) {
	for i := range w.items {
		it, d := &w.items[i], &decisions[i]
		switch {
		case it.written:
			w.date(it, d)
		case it.Meter.Kind.Fixed() && !it.missing:
			it.slot().extend(w.now.Add(d.ResetAfter), w.isGiven())
		}
	}
}

func (w *work) date(it *item, d *penstock.Decision) {
	s := it.slot()
	date(s, it.at, d, w.isGiven(), w.now)
	it.tighten(s)
}

func (w *work) isGiven() bool { return w.ticket.Now != 0 }

// weighAll weighs every charge and tells whether those that go together pass.
func (w *work) weighAll() (passes bool) {
	for i := range w.items {
		w.weigh(&w.items[i], &w.found[i])
	}
	return w.ticket.Together(w.found, w.sightsOrNil())
}

func (w *work) weigh(it *item, f *penstock.Found) {
	m, need := it.Meter, it.Need()
	s := it.look()
	*f = penstock.Found{}
	switch m.Kind {
	case penstock.KindLog:
		weight := m.WeighLog(it.list(s), w.now, need)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	case penstock.KindLeases:
		weight := m.WeighLeases(it.sh.list(s), w.now, need, w.ticket.Nonce)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	default:
		f.State, f.Passes, it.repaired = m.Weigh(it.sh.load(s, m.Kind), w.now, need, w.ticket.MaxDelay)
	}
}

// writes tells whether a charge that was weighed leaves a trace.
func (it *item) writes(taken bool) bool {
	return it.Cost > 0 && !it.barred && it.Meter.CanEver(it.Need()) && (taken || it.repaired || it.Meter.CountDenied)
}

// mayWrite is writes before a group that is alone was decided.
func (it *item) mayWrite(taken bool) bool { return it.writes(taken || it.alone) }

// makeRoom sees to it that everything that may be written can be. It changes no state of the
// ticket's, so nothing is half charged if there is no room. Tables come first: what is dead may
// vanish there, and lists are looked up anew after that.
func (w *work) makeRoom(taken bool) error {
	r := &room{w.ticket, w.store.seed, w.now}
	for _, index := range w.shards {
		sh := &w.store.shards[index]
		n := w.newSlots(sh, taken)
		if n == 0 || sh.makeRoom(n, r) == nil {
			continue
		}
		if err := w.divide(sh, taken, r); err != nil {
			return err
		}
	}
	lists := 0
	for i := range w.items {
		if w.items[i].spills() {
			lists++
		}
	}
	for i := range w.items {
		it := &w.items[i]
		if !it.spills() || !it.mayWrite(taken) {
			continue
		}
		if err := it.makeBlock(lists, r); err != nil {
			return err
		}
	}
	return w.holdGuards(r)
}

// newSlots returns how many slots the ticket may add to a shard.
func (w *work) newSlots(sh *shard, taken bool) (n uint32) {
	for i := range w.items {
		if it := &w.items[i]; it.sh == sh && it.missing && it.mayWrite(taken) {
			n++
		}
	}
	for i := range w.guards {
		n += w.guards[i].newSlots(sh)
	}
	return n
}

// decideAlone decides the groups that are alone, one after the other.
func (w *work) decideAlone() {
	first := 0
	for g := range w.ticket.Groups {
		group := &w.ticket.Groups[g]
		end := first + len(group.Charges)
		if group.Alone {
			for i := first; i < end; i++ {
				w.weigh(&w.items[i], &w.found[i])
			}
			taken := group.Passes(w.found[first:end], w.sight(g))
			for i := first; i < end; i++ {
				w.apply(&w.items[i], &w.found[i], taken)
			}
			w.strike(g, w.found[first:end])
		}
		first = end
	}
}

// sight returns what was found for the guards of a group, nil if no group has any.
func (w *work) sight(g int) *penstock.Sight {
	if len(w.sights) == 0 {
		return nil
	}
	return &w.sights[g]
}

// apply carries a charge out that was weighed: taken, or denied by itself or another.
func (w *work) apply(it *item, f *penstock.Found, taken bool) {
	m := it.Meter
	if !m.Kind.Fixed() {
		w.applyList(it, f, taken)
		return
	}
	if !it.writes(taken) {
		return
	}
	switch {
	case taken:
		f.Amount = m.Amount(f.State, w.now, it.Charge)
		f.State = m.Charge(f.State, f.Amount)
	case m.CountDenied:
		f.State = m.ChargeDenied(f.State, it.Cost)
	}
	st := f.State
	if !it.repaired && (m.Kind == penstock.KindCounter || m.Kind == penstock.KindInterval) {
		if s := it.slot(); s != nil {
			st.At = max(st.At, s.at()) // what was adopted is dated within its window
		}
	}
	it.save(st)
}

// save writes a fixed-size state.
func (it *item) save(st penstock.State) {
	s := it.slot()
	if s == nil {
		s = it.add()
	}
	it.sh.save(s, it.Meter.Kind, st)
	it.wrote(s, st.At)
}
