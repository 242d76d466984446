package memstore

import (
	"github.com/penstock-io/penstock/storage"
)

// Most tickets with several limits are plain: a few limits of a fixed size, without guards, whose slots exist. They are
// decided here, in place. Nothing is added, so slots stay where they are and each is searched for once.

// maxPlain is the most charges of a plain ticket.
const maxPlain = 8

// shardList is the shards to lock, distinct and ascending, so that tickets that share shards cannot deadlock.
type shardList struct {
	all [maxPlain]uint64
	n   int
}

// takePlain decides a ticket and reports whether it did. If not, it has changed nothing, and the ticket needs a
// workspace.
func (s *Store) takePlain(t *storage.Ticket, out *storage.Outcome) bool {
	var shards shardList
	if !s.listShards(t, &shards) {
		return false
	}
	for _, index := range shards.all[:shards.n] {
		s.shards[index].lock()
	}
	decided := s.decidePlain(t, out)
	for _, index := range shards.all[:shards.n] {
		s.shards[index].unlock()
	}
	return decided
}

// listShards lists the shards of a ticket. It reports false if the ticket is not plain.
func (s *Store) listShards(t *storage.Ticket, shards *shardList) bool {
	if t.Denied {
		return false
	}
	n := 0
	for i := range t.Groups {
		g := &t.Groups[i]
		if n += len(g.Charges); g.Alone || g.Guarded() || n > maxPlain {
			return false
		}
		for j := range g.Charges {
			if c := &g.Charges[j]; !c.Meter.Kind.Fixed() || isWide(c.Meter) || c.Overdraw {
				return false
			}
		}
		_, index := s.locate(&g.Subject, g.Charges[0].Meter)
		shards.add(index)
	}
	return true
}

func (l *shardList) add(index uint64) {
	at := l.n
	for at > 0 && l.all[at-1] >= index {
		if l.all[at-1] == index {
			return
		}
		at--
	}
	copy(l.all[at+1:], l.all[at:l.n])
	l.all[at] = index
	l.n++
}

// decidePlain weighs all charges and then charges all of them or none. It reports false if one has no slot yet. It
// needs the locks.
func (s *Store) decidePlain(t *storage.Ticket, out *storage.Outcome) bool {
	var charges [maxPlain]plainCharge
	var found [maxPlain]storage.ChargeResult
	now, passes, n := s.instant(t), true, 0
	for i := range t.Groups {
		g := &t.Groups[i]
		for j := range g.Charges {
			c, f := &g.Charges[j], &found[n]
			k, index := s.locate(&g.Subject, c.Meter)
			if !charges[n].find(&s.shards[index], k) {
				return false
			}
			f.State, f.Passes = charges[n].weigh(c.Meter, now, c.Cost, t.MaxDelay)
			passes = passes && f.Passes
			n++
		}
	}
	n = 0
	for i := range t.Groups {
		g := &t.Groups[i]
		for j := range g.Charges {
			c, f := &g.Charges[j], &found[n]
			f.State = charges[n].charge(c.Meter, c.Cost, f.State, passes)
			n++
		}
	}
	out.Settle(t, now, found[:n], nil)
	for i := range charges[:n] {
		charges[i].keep(now.Add(out.Decisions[i].ResetAfter), t.Now != 0)
	}
	return true
}
