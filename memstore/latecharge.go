package memstore

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// ChargeLate charges what was admitted elsewhere. It is one step under the lock of the subject's shard; if
// it returns an error, nothing has changed.
func (s *Store) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return ended("charge late", err)
	}
	w := works.Get().(*workspace)
	w.store = s
	w.layOutLate(c)
	w.lock()
	err := w.chargeLate(c)
	w.unlock()
	w.forget()
	works.Put(w)
	if err != nil {
		return fmt.Errorf("charge late in memory: %w", err)
	}
	return nil
}

// layOutLate presents the charge as a ticket, so that the same code finds its states and makes room.
func (w *workspace) layOutLate(c *storage.LateCharge) {
	g := storage.Group{Subject: c.Subject, Charges: make([]algorithm.Charge, len(c.Amounts))}
	for i, a := range c.Amounts {
		g.Charges[i].Meter = a.Meter
	}
	w.ownGroup[0] = g
	w.own = storage.Ticket{Now: c.Now, Groups: w.ownGroup[:]}
	w.ticket = &w.own
	w.list()
	w.guards = append(w.guards[:0], guard{record: w.refApart(lateKey(&c.Subject, c.Nonce, w.store.seed))})
}

// A lateItem is the new state of an item.
type lateItem struct {
	state   algorithm.State
	entries []algorithm.Entry // to insert into a log
}

func (w *workspace) chargeLate(c *storage.LateCharge) error {
	w.now = w.store.instant(w.ticket)
	clear(w.found)
	record := &w.guards[0].record
	if record.findSlot() != nil {
		return nil
	}
	after := make([]lateItem, len(w.items))
	for i := range w.items {
		it, a, late := &w.items[i], &after[i], &c.Amounts[i]
		s := it.findSlot()
		if it.Meter.Kind == algorithm.KindLog {
			a.entries = it.Meter.LateEntries(it.list(s), late.Log, w.now)
			it.wanted = len(a.entries) > 0
		} else {
			a.state, it.wanted = it.Meter.AddLate(it.sh.load(s, it.Meter.Kind), late.State, w.now)
		}
	}
	if err := w.makeRoomForLate(after); err != nil {
		return err
	}
	for i := range w.items {
		if w.items[i].wanted {
			w.saveLate(&w.items[i], &after[i])
		}
	}
	w.report(&storage.SettleOutcome{}) // report also dates what was written
	s := record.slotApart()
	s.head = head(w.now, w.now+algorithm.Instant(c.TTL()), apart|givenFlag(w.isGiven()))
	return nil
}

// makeRoomForLate makes room for all writes, including the record of the charge.
func (w *workspace) makeRoomForLate(after []lateItem) error {
	r := w.room()
	n := uint32(0)
	for i := range w.items {
		if it := &w.items[i]; it.wanted && it.missing {
			n++
		}
	}
	if err := w.items[0].sh.makeRoom(n, r); err != nil {
		return err
	}
	if err := w.guards[0].record.sh.makeRoomApart(1, r, forState); err != nil {
		return err
	}
	for i := range w.items {
		if it := &w.items[i]; it.wanted && it.isList() {
			if err := it.makeBlock(len(after[i].entries)+1, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *workspace) saveLate(it *item, after *lateItem) {
	if it.Meter.Kind != algorithm.KindLog {
		it.save(after.state)
		return
	}
	s := it.slot()
	if s == nil {
		s = it.add()
	}
	it.setList(s, it.Meter.InsertLate(it.list(s), after.entries, w.now))
}

// lateKey returns the key of the slot that a late charge leaves behind, so that it takes effect only once.
func lateKey(s *storage.Subject, nonce, seed uint64) key {
	const late = 0x6c61746520636867 // "late chg", in place of half of a request's id
	return keyApart(s, nonce, late, seed)
}
