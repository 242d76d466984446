package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// On a cluster a script runs within one slot. A ticket whose subjects live in several slots is decided slot
// by slot, in ascending order, so that two such tickets do not deny each other forever. What it takes is
// held: recorded under a random number, so that it can be undone exactly once if a later slot denies,
// whichever replies are lost. No limit is ever exceeded. Nothing stays charged while this process lives and
// Redis answers within holdTime. If the process dies in between, what its tickets in flight have taken
// stays charged, as with a lost reply. A charge that is undone a moment later may deny another request.

// holdTime is how long Redis keeps a hold, and how long this process tries to undo it.
const holdTime = 30 * time.Second

// A holdID identifies what one group of a ticket took.
type holdID [9]byte

func newHoldID(hold uint64, group int) (id holdID) {
	binary.BigEndian.PutUint64(id[:], hold)
	id[8] = byte(group)
	return id
}

// A part is the part of a ticket that lives in one slot.
type part struct {
	slot    int
	ticket  storage.Ticket
	groups  []int // indexes into the whole ticket
	outcome storage.Outcome

	now    algorithm.Instant // from the script's reply
	found  []storage.ChargeResult
	sights []storage.GuardResult
}

// takeAcross decides a ticket whose subjects live in several slots.
func (s *Store) takeAcross(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	ctx, cancel := s.withLimit(ctx, s.conns.Load().pipes) // for all slots together
	defer cancel()
	hold := rand.Uint64() | 1
	together := partsOf(t, false)
	for i := range together {
		p := &together[i]
		if err := s.takePart(ctx, p, hold); err != nil {
			if !p.ticket.Denied {
				go s.undoAll(together[:i+1], hold) // including this one: its reply may have been lost
			}
			if i == 0 {
				return markNotTaken(err)
			}
			return err
		}
		if p.outcome.Allowed || p.ticket.Denied {
			continue
		}
		for j := range together { // tell the parts that follow, undo those before
			together[j].ticket.Denied = true
		}
		if err := s.undo(ctx, together[:i], hold); err != nil {
			go s.undoAll(together[:i], hold)
			return err
		}
	}
	alone := partsOf(t, true)
	for i := range alone {
		if err := s.takePart(ctx, &alone[i], 0); err != nil {
			if len(together) > 0 && !together[0].ticket.Denied { // otherwise nothing is left of it
				go s.undoAll(together, hold)
			}
			return err
		}
	}
	join(t, append(together, alone...), out)
	return nil
}

// partsOf splits the groups that are decided together, or the independent ones, by slot. It copies their
// charges, because an undo may run after the ticket has returned to its caller.
func partsOf(t *storage.Ticket, alone bool) (parts []part) {
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Alone != alone {
			continue
		}
		slot := slotOf(g.Subject)
		at, there := slices.BinarySearchFunc(parts, slot, func(p part, slot int) int { return cmp.Compare(p.slot, slot) })
		if !there {
			p := part{slot: slot, ticket: *t}
			p.ticket.Groups = nil
			parts = slices.Insert(parts, at, p)
		}
		own := *g
		own.Charges = slices.Clone(g.Charges)
		parts[at].ticket.Groups = append(parts[at].ticket.Groups, own)
		parts[at].groups = append(parts[at].groups, i)
	}
	return parts
}

func (s *Store) takePart(ctx context.Context, p *part, hold uint64) error {
	c := newCall(&p.ticket)
	if !p.ticket.Denied {
		c.hold = hold
	}
	if err := s.exchange(ctx, s.laneAt(p.slot), c); err != nil {
		return &partError{err, p.ticket.Groups[0].Subject}
	}
	p.now, p.found = c.now, slices.Clone(c.found)
	if c.guarded {
		p.sights = slices.Clone(c.sights)
	}
	p.settle()
	calls.Put(c)
	return nil
}

func (p *part) settle() { p.outcome.Settle(&p.ticket, p.now, p.found, p.sights) }

// join merges the outcomes of the parts.
func join(t *storage.Ticket, parts []part, out *storage.Outcome) {
	out.Now, out.Allowed = 0, !t.Denied // the outcome may be that of a ticket before
	out.Groups = slices.Grow(out.Groups[:0], len(t.Groups))[:len(t.Groups)]
	starts := make([]int, len(t.Groups)+1) // of the groups' decisions
	for i := range t.Groups {
		starts[i+1] = starts[i] + len(t.Groups[i].Charges)
	}
	out.Decisions = slices.Grow(out.Decisions[:0], starts[len(t.Groups)])[:starts[len(t.Groups)]]
	out.States = slices.Grow(out.States[:0], len(out.Decisions))[:len(out.Decisions)]
	for i := range parts {
		p := &parts[i]
		out.Now = max(out.Now, p.outcome.Now)
		decisions, states := p.outcome.Decisions, p.outcome.States
		for j, g := range p.groups {
			if !t.Groups[g].Alone && !p.outcome.Groups[j].Taken {
				out.Allowed = false
			}
			out.Groups[g] = p.outcome.Groups[j]
			n := copy(out.Decisions[starts[g]:starts[g+1]], decisions)
			copy(out.States[starts[g]:starts[g+1]], states)
			decisions, states = decisions[n:], states[n:]
		}
	}
}

// undo returns what the parts have taken and rewrites their outcomes: they pass, but are denied elsewhere.
func (s *Store) undo(ctx context.Context, parts []part, hold uint64) error {
	for i := range parts {
		p := &parts[i]
		at := 0
		for j := range p.ticket.Groups {
			g := &p.ticket.Groups[j]
			if g.Spends() {
				r, err := s.undoGroup(ctx, &p.ticket, j, hold)
				if err != nil && !errors.Is(err, storage.ErrNoReservation) {
					return err
				}
				if err == nil { // otherwise an operator has reset the subject in between
					p.now = r.now
					for k := range g.Charges {
						p.found[at+k].State = unpackItem(r.charges[k*chargeSize:]).state(g.Charges[k].Meter)
					}
				}
			}
			at += len(g.Charges)
		}
		p.settle()
	}
	return nil
}

// undoGroup returns what a group has taken. It takes effect once: the second time, there is no reservation.
func (s *Store) undoGroup(ctx context.Context, t *storage.Ticket, i int, hold uint64) (amendReply, error) {
	g := &t.Groups[i]
	a := amendment{now: t.Now, verb: verbUndo, nonce: t.Nonce, hold: newHoldID(hold, i), length: holdTime.Microseconds()}
	a.keys.add(appendSubjectKey(nil, s.prefix, g.Subject))
	a.keys.add(appendReservationsKey(nil, s.prefix, g.Subject))
	for _, c := range g.Charges {
		a.meter(s.prefix, g.Subject, c.Meter, 0)
	}
	if g.Remembers() {
		a.meter(s.prefix, g.Subject, g.Dedup.Budget, 0)
		a.record = a.keys.add(appendRecordKey(nil, s.prefix, g.Subject, g.Call)) - 2
	}
	r, err := s.run(ctx, &a, int(a.charges))
	if err != nil {
		return r, fmt.Errorf("redis: undo: %w", err)
	}
	return r, nil
}

// undoAll returns what the parts of a failed ticket have taken, and retries as long as that is possible. It
// is not known whether the last part has taken anything, or will.
func (s *Store) undoAll(parts []part, hold uint64) {
	end := time.Now().Add(holdTime)
	for i := range parts {
		for j := range parts[i].ticket.Groups {
			if !parts[i].ticket.Groups[j].Spends() {
				continue
			}
			for pause := 10 * time.Millisecond; time.Now().Before(end); pause = min(2*pause, time.Second) {
				_, err := s.undoGroup(s.open, &parts[i].ticket, j, hold)
				if err == nil || errors.Is(err, storage.ErrNoReservation) && i < len(parts)-1 {
					break
				}
				select {
				case <-time.After(pause):
				case <-s.open.Done():
					return
				}
			}
		}
	}
}
