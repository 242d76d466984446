package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// latest is the largest age difference, in µs, between two answers that arrive out of order. An answer
// older than that was written after the clock of the other store stepped back.
const latest = algorithm.Instant(10_000_000)

// Adopt implements [storage.Follower]. An adopted counter carries the instant at which it was true, which
// every kind of state allows. That is how Adopt recognises an answer that arrives out of order.
func (s *Store) Adopt(k *storage.StateReport) {
	if k.Now <= 0 || k.Now > algorithm.MaxInstant {
		return
	}
	if !k.Given {
		s.clock.followed.compare(k.Now)
	}
	switch m := k.Meter; {
	case m == nil && k.Penalty != nil:
		s.adoptBan(k)
	case m != nil && m.Kind != algorithm.KindLeases && m.CanEver(1):
		w := works.Get().(*workspace)
		w.store = s
		w.layOutKnowledge(k)
		w.lock()
		w.adopt(k)
		w.unlock()
		w.forget()
		works.Put(w)
	}
}

// layOutKnowledge presents the knowledge as a ticket, so that the same code finds its state and makes room.
func (w *workspace) layOutKnowledge(k *storage.StateReport) {
	w.ownCharge[0] = algorithm.Charge{Meter: k.Meter, Cost: 1}
	w.ownGroup[0] = storage.Group{Subject: k.Subject, Charges: w.ownCharge[:]}
	w.own = storage.Ticket{Groups: w.ownGroup[:]}
	if k.Given {
		w.own.Now = k.Now
	}
	w.ticket, w.now = &w.own, k.Now
	w.list()
}

func (w *workspace) adopt(k *storage.StateReport) {
	it, m := &w.items[0], k.Meter
	s := it.findSlot()
	if s != nil && s.isShared() { // other keys share it too, so this answer must not replace it
		s = nil
	}
	if m.Kind == algorithm.KindLog {
		w.adoptLog(it, k)
		return
	}
	at, st := max(k.Now, k.State.At), k.State
	if s != nil {
		// Of two answers with the same instant, the one that counts more wins. Where tickets bring their
		// own instants, time may not advance, and the last answer to arrive is the latest.
		if have := s.at(); have-at <= latest && (have > at || have == at && !k.Given) {
			at = have
			if usedAt(m, it.sh.load(s, m.Kind), at) >= usedAt(m, st, at) {
				return
			}
		}
	} else if usedAt(m, st, at) == 0 {
		return // nothing used: same as a key never seen
	}
	if w.makeRoom(true) != nil || it.shared { // the only room is in a shared counter
		return
	}
	st, _, _ = m.Weigh(st, at, 0, 0)
	d := m.Peek(st, at)
	st.At = at
	it.save(st)
	date(it.slot(), at, at.Add(d.ResetAfter), k.Given)
}

// usedAt returns how much of the limit a state has used at an instant.
func usedAt(m *algorithm.Meter, st algorithm.State, at algorithm.Instant) int64 {
	st, _, _ = m.Weigh(st, at, 0, 0)
	return m.Peek(st, at).Used
}

// adoptLog adds the entries that a denial by the other store's log proves.
func (w *workspace) adoptLog(it *item, k *storage.StateReport) {
	m, from := k.Meter, k.State.FreeAt
	if from <= 0 || from+algorithm.Instant(m.Window) <= k.Now || from > k.Now {
		return
	}
	it.list(it.findSlot())
	if w.makeRoom(true) != nil || it.shared {
		return
	}
	s := it.slot()
	if s == nil {
		s = it.add()
	}
	log := m.FillLog(it.list(s), from, k.Cost)
	if len(log) == 0 {
		it.sh.drop(it.sh.index(s))
		return
	}
	it.setList(s, log)
	d := m.Peek(m.LogState(log, k.Now, 0, true), k.Now)
	date(s, it.at, k.Now.Add(d.ResetAfter), k.Given)
}

// adoptBan replaces the known state of a ban. A ban is dated by its start, which here is when this store
// learns of it.
func (s *Store) adoptBan(k *storage.StateReport) {
	key, number := keyOf(&k.Subject, algorithm.PenaltyFingerprint, s.seed)
	p := slotRef{key: key, sh: &s.shards[number>>s.shift]}
	p.sh.lock()
	defer p.sh.unlock()
	at := p.findSlot()
	isBan, knownBan := k.BannedUntil > k.Now, at != nil && at.head&sortMask == banned
	isOlder := at != nil && at.at() > k.Now && at.at()-k.Now <= latest
	if isOlder || !isBan && !knownBan {
		return
	}
	st := at.penalty()
	if isBan {
		st = k.Penalty.Ban(st, k.Now, int64(k.BannedUntil-k.Now))
	} else {
		st = k.Penalty.Lift(st, k.Now)
	}
	if p.missing {
		t := storage.Ticket{Groups: []storage.Group{{Subject: k.Subject, Penalty: k.Penalty}}}
		if k.Given {
			t.Now = k.Now
		}
		if p.sh.makeRoom(1, &roomRequest{ticket: &t, seed: s.seed, now: k.Now}) != nil {
			return
		}
	}
	p.setPenalty(st, k.Penalty.Forgive, isBan, k.Given)
}

// Forget implements [storage.Follower]. It keeps permits and reservations, because they belong to this
// store.
func (s *Store) Forget(g *storage.Group, before algorithm.Instant) {
	sh := s.shardOf(&g.Subject)
	sh.lock()
	defer sh.unlock()
	for _, c := range g.Charges {
		if c.Meter == nil || c.Meter.Kind == algorithm.KindLeases {
			continue
		}
		k, _ := keyOf(&g.Subject, c.Meter.Fingerprint, s.seed)
		at := sh.find(k)
		switch {
		case at == nil:
		case at.at() < before:
			sh.forget(k)
		case c.Meter.Kind == algorithm.KindLog:
			sh.forgetEntries(at, before)
		}
	}
	if k, _ := keyOf(&g.Subject, algorithm.PenaltyFingerprint, s.seed); g.Penalty != nil {
		if at := sh.find(k); at != nil && at.at() < before {
			sh.forget(k)
		}
	}
}

// forgetEntries drops the entries of a log that are older than an instant. The last entry must not be
// older.
func (sh *shard) forgetEntries(s *slot, before algorithm.Instant) {
	log := sh.list(s)
	first := 1
	for log[first].At < before {
		first++
	}
	s.setList(s.block(), copy(log, log[first-1:]))
}
