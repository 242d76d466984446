package memstore

import (
	"slices"
	"sync"

	"github.com/penstock-io/penstock"
)

// work is the scratch of a ticket with several charges, or with lists.
type work struct {
	store  *Store
	ticket *penstock.Ticket
	now    penstock.Instant
	items  []item // one for each charge, in the ticket's order
	found  []penstock.Found
	shards []uint64 // distinct, ascending, locked
}

// An item is one charge.
type item struct {
	key
	sh       *shard
	meter    *penstock.Meter
	cost     int64
	alone    bool
	missing  bool // no slot was found
	repaired bool
	written  bool
	at       penstock.Instant // of what was written
	block    block            // for a list that is new, until it has a slot
}

var works = sync.Pool{New: func() any { return new(work) }}

func (s *Store) takeMany(t *penstock.Ticket, out *penstock.Outcome) error {
	w := works.Get().(*work)
	w.store, w.ticket = s, t
	coarse := w.list()
	w.lock()
	err := w.decide(coarse, out)
	w.unlock()
	w.forget()
	works.Put(w)
	return err
}

// list lays the charges out and reports whether the coarse clock will do. Groups that are alone
// are decided after others were written, too late to change the instant.
func (w *work) list() (coarse bool) {
	coarse = true
	for i := range w.ticket.Groups {
		g := &w.ticket.Groups[i]
		for j, c := range g.Charges {
			k, index := w.store.locate(&g.Subject, c.Meter)
			w.items = append(w.items, item{key: k, sh: &w.store.shards[index], meter: c.Meter, cost: c.Cost, alone: g.Alone})
			coarse = coarse && !g.Alone && coarseServes(c.Meter)
			if j == 0 {
				w.shards = append(w.shards, index)
			}
		}
	}
	w.found = slices.Grow(w.found, len(w.items))[:len(w.items)]
	return coarse
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
		if it := &w.items[i]; it.block != 0 {
			it.sh.lists.free(it.block)
		}
	}
	for _, index := range w.shards {
		w.store.shards[index].mu.Unlock()
	}
}

func (w *work) forget() {
	clear(w.items) // of their pointers
	*w = work{items: w.items[:0], found: w.found[:0], shards: w.shards[:0]}
}

func (w *work) decide(coarse bool, out *penstock.Outcome) error {
	var exact bool
	w.now, exact = w.store.instant(w.ticket, coarse)
	passes := w.weighAll()
	if !passes && !exact {
		w.now = realNow()
		passes = w.weighAll()
	}
	if err := w.makeRoom(passes); err != nil {
		return err
	}
	for i := range w.items {
		if !w.items[i].alone {
			w.apply(i, passes)
		}
	}
	w.decideAlone()
	out.Settle(w.ticket, w.now, w.found, nil)
	for i := range w.items {
		if it := &w.items[i]; it.written {
			s := it.sh.find(it.key)
			date(s, it.at, &out.Decisions[i], w.ticket.Now != 0, w.now)
			it.tighten(s)
		}
	}
	return nil
}

// weighAll weighs every charge and tells whether those that go together pass.
func (w *work) weighAll() (passes bool) {
	for i := range w.items {
		w.weigh(i)
	}
	return w.ticket.Together(w.found, nil)
}

func (w *work) weigh(i int) {
	it := &w.items[i]
	m := it.meter
	s := it.sh.find(it.key)
	it.missing = s == nil
	f := &w.found[i]
	*f = penstock.Found{}
	switch m.Kind {
	case penstock.KindLog:
		weight := m.WeighLog(it.sh.list(s), w.now, it.cost)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	case penstock.KindLeases:
		weight := m.WeighLeases(it.sh.list(s), w.now, it.cost, w.ticket.Nonce)
		f.Passes, it.repaired = weight.Passes, weight.Repaired
	default:
		f.State, f.Passes, it.repaired = m.Weigh(it.sh.load(s, m.Kind), w.now, it.cost, w.ticket.MaxDelay)
	}
}

// writes tells whether a charge that was weighed leaves a trace.
func (it *item) writes(taken bool) bool {
	return it.cost > 0 && it.meter.CanEver(it.cost) && (taken || it.repaired || it.meter.CountDenied)
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
		n := uint32(0)
		for i := range w.items {
			if it := &w.items[i]; it.sh == sh && it.missing && it.mayWrite(taken) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		if err := sh.makeRoom(n, r); err != nil {
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
	return nil
}

// decideAlone decides the groups that are alone, one after the other.
func (w *work) decideAlone() {
	first := 0
	for g := range w.ticket.Groups {
		group := &w.ticket.Groups[g]
		end := first + len(group.Charges)
		if group.Alone {
			passes := true
			for i := first; i < end; i++ {
				w.weigh(i)
				passes = passes && w.found[i].Passes
			}
			for i := first; i < end; i++ {
				w.apply(i, passes)
			}
		}
		first = end
	}
}

// apply carries a charge out that was weighed: taken, or denied by itself or another.
func (w *work) apply(i int, taken bool) {
	it, f := &w.items[i], &w.found[i]
	if !it.meter.Kind.Fixed() {
		w.applyList(it, f, taken)
		return
	}
	st, write := charge(it.meter, f.State, it.cost, taken, it.repaired)
	f.State = st
	if !write {
		return
	}
	s := it.sh.find(it.key)
	if s == nil {
		s = it.add()
	}
	it.sh.save(s, it.meter.Kind, st)
	it.wrote(s, st.At)
}
