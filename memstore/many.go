package memstore

import (
	"slices"
	"sync"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// workspace is the scratch space of a settlement, and of a ticket with several charges, lists or guards.
type workspace struct {
	store    *Store
	ticket   *storage.Ticket
	now      algorithm.Instant
	items    []item // one for each charge, in the ticket's order
	found    []storage.ChargeResult
	guards   []guard // one for each group; none if no group is guarded
	sights   []storage.GuardResult
	shards   []uint64 // distinct, ascending, locked
	receipts []algorithm.Receipt

	own       storage.Ticket // holds a settlement or adopted knowledge, presented as a ticket
	ownGroup  [1]storage.Group
	ownCharge [1]algorithm.Charge
}

// An item is one charge.
type item struct {
	slotRef
	algorithm.Charge
	tag      uint32            // of the subject's rule
	carried  []algorithm.Entry // the contents of the shared log, for a log that is added
	alone    bool
	reserved bool // it can be settled, so its counter cannot be shared
	shared   bool // it is charged to a shared counter
	own      key  // the item's own key, if key is that of a shared counter
	barred   bool // by a ban: it is weighed but leaves no trace
	repaired bool
	written  bool
	at       algorithm.Instant // the date of what was written
}

var works = sync.Pool{New: func() any { return new(workspace) }}

func (s *Store) takeMany(t *storage.Ticket, out *storage.Outcome) error {
	w := works.Get().(*workspace)
	w.store, w.ticket = s, t
	w.list()
	w.lock()
	err := w.decide(out)
	w.unlock()
	w.forget()
	works.Put(w)
	return err
}

// list fills in the items and guards.
func (w *workspace) list() {
	guarded := false
	for i := range w.ticket.Groups {
		g := &w.ticket.Groups[i]
		guarded = guarded || g.Guarded()
		for j, c := range g.Charges {
			k, index := w.store.locate(&g.Subject, c.Meter)
			w.items = append(w.items, item{slotRef: slotRef{key: k, sh: &w.store.shards[index]}, Charge: c, alone: g.Alone, reserved: g.Reserve != 0, tag: tagOf(&g.Subject)})
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

// lock takes the locks in ascending order, so that tickets that share shards cannot deadlock.
func (w *workspace) lock() {
	if len(w.shards) > 1 {
		slices.Sort(w.shards)
		w.shards = slices.Compact(w.shards)
	}
	for _, index := range w.shards {
		w.store.shards[index].lock()
	}
}

func (w *workspace) unlock() {
	for i := range w.items {
		w.items[i].letGo()
	}
	for i := range w.guards {
		w.guards[i].letGo()
	}
	for _, index := range w.shards {
		w.store.shards[index].unlock()
	}
}

func (w *workspace) forget() {
	clear(w.items) // drops their pointers
	clear(w.guards)
	*w = workspace{items: w.items[:0], found: w.found[:0], guards: w.guards[:0], sights: w.sights[:0], shards: w.shards[:0], receipts: w.receipts[:0]}
}

func (w *workspace) decide(out *storage.Outcome) error {
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

// dateAll dates what was written according to the decisions, and keeps what was only read for as long as
// they say.
func (w *workspace) dateAll(decisions []algorithm.Decision) {
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

func (w *workspace) date(it *item, d *algorithm.Decision) {
	s := it.slot()
	date(s, it.at, w.now.Add(d.ResetAfter), w.isGiven())
	it.shrinkList(s)
}

func (w *workspace) isGiven() bool { return w.ticket.Now != 0 }

// weighAll weighs every charge and reports whether the charges that are decided together pass.
func (w *workspace) weighAll() (passes bool) {
	for i := range w.items {
		w.weigh(&w.items[i], &w.found[i])
	}
	return w.ticket.Together(w.found, w.sightsOrNil())
}

func (w *workspace) weigh(it *item, f *storage.ChargeResult) {
	m, need := it.Meter, it.Need()
	s := it.findSlot()
	*f = storage.ChargeResult{}
	switch m.Kind {
	case algorithm.KindLog:
		weight := m.WeighLog(it.list(s), w.now, need)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	case algorithm.KindLeases:
		weight := m.WeighLeases(it.sh.list(s), w.now, need, w.ticket.Nonce)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	default:
		f.State, f.Passes, it.repaired = m.Weigh(it.sh.load(s, m.Kind), w.now, need, w.ticket.MaxDelay)
	}
}

// writes reports whether a weighed charge leaves a trace.
func (it *item) writes(taken bool) bool {
	return it.Cost > 0 && !it.barred && it.Meter.CanEver(it.Need()) && (taken || it.repaired || it.Meter.CountDenied)
}

// mayWrite is writes before the independent groups are decided.
func (it *item) mayWrite(taken bool) bool { return it.writes(taken || it.alone) }

// room returns the request for room of the ticket, whose shards are locked.
func (w *workspace) room() *roomRequest {
	return &roomRequest{ticket: w.ticket, seed: w.store.seed, now: w.now, held: w.shards}
}

// makeRoom ensures that everything the ticket may write has room. It does not change any state of the
// ticket, so nothing is half charged if there is no room. Tables come first: expired slots may disappear
// there, so lists are looked up again afterwards.
func (w *workspace) makeRoom(taken bool) error {
	r := w.room()
	for _, index := range w.shards {
		sh := &w.store.shards[index]
		if sh.isApart() {
			continue
		}
		n := w.newSlots(sh, taken)
		if n == 0 || sh.makeRoom(n, r) == nil {
			continue
		}
		if err := w.divide(sh, taken, r); err != nil {
			return err
		}
	}
	if err := w.makeRoomForGuards(r); err != nil {
		return err
	}
	lists := 0
	for i := range w.items {
		if w.items[i].isList() {
			lists++
		}
	}
	for i := range w.items {
		it := &w.items[i]
		if !it.isList() || !it.mayWrite(taken) {
			continue
		}
		if err := it.makeBlock(lists, r); err != nil {
			return err
		}
	}
	return w.holdGuards(r)
}

// newSlots returns how many slots the ticket may add to a shard.
func (w *workspace) newSlots(sh *shard, taken bool) (n uint32) {
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

// decideAlone decides the independent groups, one after the other.
func (w *workspace) decideAlone() {
	first := 0
	for g := range w.ticket.Groups {
		group := &w.ticket.Groups[g]
		end := first + len(group.Charges)
		if group.Alone {
			for i := first; i < end; i++ {
				w.weigh(&w.items[i], &w.found[i])
			}
			taken := group.Passes(w.found[first:end], w.guardResult(g))
			for i := first; i < end; i++ {
				w.apply(&w.items[i], &w.found[i], taken)
			}
			w.strike(g, w.found[first:end])
		}
		first = end
	}
}

// guardResult returns the sight of a group's guards, or nil if no group has any.
func (w *workspace) guardResult(g int) *storage.GuardResult {
	if len(w.sights) == 0 {
		return nil
	}
	return &w.sights[g]
}

// apply carries out a weighed charge: admitted, or denied by itself or by another charge.
func (w *workspace) apply(it *item, f *storage.ChargeResult, taken bool) {
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
	if !it.repaired && (m.Kind == algorithm.KindCounter || m.Kind == algorithm.KindInterval) {
		if s := it.slot(); s != nil {
			st.At = max(st.At, s.at()) // an adopted state is dated within its window
		}
	}
	it.save(st)
}

// save writes a fixed-size state.
func (it *item) save(st algorithm.State) {
	s := it.slot()
	if s == nil {
		s = it.add()
	}
	it.sh.save(s, it.Meter.Kind, st)
	it.noteWritten(s, st.At)
}
