package storetest

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
)

// A saboteur is a model whose ledger is tampered with before, after or instead of what is asked.
type saboteur struct {
	*Model
	before func(l ledger, t *penstock.Ticket)
	after  func(l ledger, t *penstock.Ticket, out *penstock.Outcome)
	settle func(l ledger, s *penstock.Settlement, out *penstock.Settled) error
}

func (s *saboteur) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		mine := deepCopy(t)
		mine.Now = instantOf(t.Now)
		if s.before != nil {
			s.before(s.ledger, mine)
		}
		s.ledger.take(mine, mine.Now, out)
		if s.after != nil {
			s.after(s.ledger, mine, out)
		}
		return nil
	})
}

func (s *saboteur) Settle(ctx context.Context, settlement *penstock.Settlement, out *penstock.Settled) error {
	if s.settle == nil || settlement.Validate() != nil {
		return s.Model.Settle(ctx, settlement, out)
	}
	return s.locked(ctx, func() error {
		mine := *settlement
		mine.Now = instantOf(mine.Now)
		return s.settle(s.ledger, &mine, out)
	})
}

func beforeTakes(before func(l ledger, t *penstock.Ticket)) penstock.Store {
	return &saboteur{Model: NewModel(), before: before}
}

// beforePenalties tampers with each group that has a penalty, and what is kept of it.
func beforePenalties(tamper func(l ledger, a account, g *penstock.Group, now penstock.Instant)) penstock.Store {
	return beforeTakes(func(l ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			if g := &t.Groups[i]; g.Penalty != nil {
				tamper(l, account{g.Subject, penstock.PenaltyFingerprint}, g, t.Now)
			}
		}
	})
}

// afterGroups tampers with what is kept after each group.
func afterGroups(tamper func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome)) penstock.Store {
	return &saboteur{Model: NewModel(), after: func(l ledger, t *penstock.Ticket, out *penstock.Outcome) {
		for i := range t.Groups {
			tamper(l, t, &t.Groups[i], &out.Groups[i])
		}
	}}
}

func settlesBy(settle func(l ledger, s *penstock.Settlement, out *penstock.Settled) error) penstock.Store {
	return &saboteur{Model: NewModel(), settle: settle}
}

func ignoresBans() penstock.Store {
	return beforePenalties(func(l ledger, a account, g *penstock.Group, now penstock.Instant) {
		if _, isBanned, _ := g.Penalty.Weigh(l.balances[a].state, now); isBanned {
			delete(l.balances, a)
		}
	})
}

func strike(l ledger, g *penstock.Group, now penstock.Instant) {
	a := account{g.Subject, penstock.PenaltyFingerprint}
	s, _, _ := g.Penalty.Weigh(l.balances[a].state, now)
	l.balances[a] = balance{state: g.Penalty.Strike(s, now)}
}

func strikesWhileBanned() penstock.Store {
	return beforePenalties(func(l ledger, a account, g *penstock.Group, now penstock.Instant) {
		if _, isBanned, _ := g.Penalty.Weigh(l.balances[a].state, now); isBanned && g.Spends() {
			strike(l, g, now)
		}
	})
}

func strikesForNever() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		for _, c := range g.Charges {
			if g.Penalty != nil && out.BannedUntil == 0 && !c.Meter.CanEver(c.Need()) {
				strike(l, g, t.Now)
			}
		}
	})
}

func strikesForOthers() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if g.Penalty != nil && out.Allowed && !out.Taken {
			strike(l, g, t.Now)
		}
	})
}

// believesAnyBan takes the end of a ban for granted, however far off a wrong clock has put it.
func believesAnyBan() penstock.Store {
	return beforePenalties(func(l ledger, a account, _ *penstock.Group, now penstock.Instant) {
		if s := l.balances[a].state; s.A < int64(s.At-now) {
			l.balances[a] = balance{state: penstock.State{At: s.At, A: int64(s.At - now), B: s.B}}
		}
	})
}

func withTerms(change func(t *penstock.PenaltyTerms)) penstock.Store {
	return beforePenalties(func(_ ledger, _ account, g *penstock.Group, _ penstock.Instant) {
		terms := g.Penalty.Terms()
		change(&terms)
		g.Penalty = must(terms.Compile())
	})
}

func neverForgives() penstock.Store {
	return withTerms(func(t *penstock.PenaltyTerms) { t.ForgiveAfter = penstock.MaxWindow })
}

func startsOverAfterTheLastBan() penstock.Store {
	return withTerms(func(t *penstock.PenaltyTerms) { t.Bans = append(t.Bans[:len(t.Bans):len(t.Bans)], penstock.MaxWindow) })
}

// chargesWhileBanned weighs and charges as if there were no ban, and then denies.
func chargesWhileBanned() penstock.Store {
	return &saboteur{Model: NewModel(), after: func(l ledger, t *penstock.Ticket, out *penstock.Outcome) {
		for i := range t.Groups {
			if out.Groups[i].BannedUntil != 0 {
				g := t.Groups[i]
				g.Penalty = nil
				l.take(&penstock.Ticket{Now: t.Now, Nonce: t.Nonce, MaxDelay: t.MaxDelay, Groups: []penstock.Group{g}}, t.Now, new(penstock.Outcome))
			}
		}
	}}
}

func afterReplays(tamper func(r *penstock.Record, now penstock.Instant)) penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if out.Replay && out.Taken {
			record := l.calls[callOf{g.Subject, g.Call}]
			tamper(&record, t.Now)
			l.calls[callOf{g.Subject, g.Call}] = record
		}
	})
}

func refreshesRecords() penstock.Store {
	return afterReplays(func(r *penstock.Record, now penstock.Instant) { r.First = now })
}

func forgetsReplays() penstock.Store {
	return afterReplays(func(r *penstock.Record, _ penstock.Instant) { r.Replays = 0 })
}

func ignoresBudget() penstock.Store {
	return afterGroups(func(l ledger, _ *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if out.Replay {
			delete(l.balances, account{g.Subject, g.Dedup.Budget.Fingerprint})
		}
	})
}

func recordsDenied() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if g.Remembers() && !out.Taken && !out.Replay {
			l.calls[callOf{g.Subject, g.Call}] = penstock.Record{First: t.Now}
		}
	})
}

func confusesIDs() penstock.Store {
	return beforeTakes(func(_ ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			if t.Groups[i].Call != (penstock.CallID{}) {
				t.Groups[i].Call = penstock.CallID{1}
			}
		}
	})
}

// chargesReplays charges a repeat like any call.
func chargesReplays() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if out.Replay && out.Taken {
			bare := penstock.Group{Subject: g.Subject, Charges: g.Charges}
			l.take(&penstock.Ticket{Now: t.Now, Nonce: t.Nonce, MaxDelay: t.MaxDelay, Groups: []penstock.Group{bare}}, t.Now, new(penstock.Outcome))
		}
	})
}

// countsBudgetInWindows counts duplicates in fixed windows, whatever limit they stand beside.
func countsBudgetInWindows() penstock.Store {
	return beforeTakes(func(_ ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			if d := t.Groups[i].Dedup; d != nil {
				terms := d.Terms()
				terms.Beside = penstock.Limit{Algorithm: penstock.FixedWindow, Window: terms.Beside.Window, Period: terms.Beside.Period, Location: terms.Beside.Location}
				t.Groups[i].Dedup = must(terms.Compile())
			}
		}
	})
}

// permitlessReplays lets a duplicate run without a permit of its own.
func permitlessReplays() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		for _, c := range g.Charges {
			if out.Replay && out.Taken && c.TakesPermit() {
				a := account{g.Subject, c.Meter.Fingerprint}
				entries, _ := c.Meter.DropLease(slices.Clone(l.balances[a].entries), t.Now, t.Nonce)
				l.balances[a] = balance{entries: entries}
			}
		}
	})
}

// concludesOriginals names what the original took as if the duplicate had taken it.
func concludesOriginals() penstock.Store {
	return afterGroups(func(_ ledger, _ *penstock.Ticket, _ *penstock.Group, out *penstock.GroupOutcome) {
		if out.Replay && out.Taken {
			out.Nonce = out.Original
		}
	})
}

// strikesForReplays counts a strike for a duplicate that finds no permit.
func strikesForReplays() penstock.Store {
	return afterGroups(func(l ledger, t *penstock.Ticket, g *penstock.Group, out *penstock.GroupOutcome) {
		if g.Penalty != nil && out.Replay && !out.Allowed {
			strike(l, g, t.Now)
		}
	})
}

func reservesTooLong() penstock.Store {
	return beforeTakes(func(_ ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			t.Groups[i].Reserve = min(2*t.Groups[i].Reserve, penstock.MaxReserve)
		}
	})
}

func overdrawsWithoutBound() penstock.Store {
	return beforeTakes(func(_ ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			for j := range t.Groups[i].Charges {
				c := &t.Groups[i].Charges[j]
				l := c.Meter.Limit()
				l.Overdraft += 1000
				if m, err := l.Compile(); err == nil && c.Overdraw {
					c.Meter = m
				}
			}
		}
	})
}

// overdrawsFromNothing lets a cost that must be recorded pass, whatever is left.
func overdrawsFromNothing() penstock.Store {
	return beforeTakes(func(_ ledger, t *penstock.Ticket) {
		for i := range t.Groups {
			for j := range t.Groups[i].Charges {
				c := &t.Groups[i].Charges[j]
				l := c.Meter.Limit()
				if c.Overdraw {
					more(&l, l.Overdraft)
				}
				if m, err := l.Compile(); err == nil {
					c.Meter = m
				}
			}
		}
	})
}

// resetsHalf forgets what was counted, and leaves the ban and the reservations.
func resetsHalf() penstock.Store { return &halfResetter{NewModel()} }

type halfResetter struct{ *Model }

func (h *halfResetter) Reset(_ context.Context, g *penstock.Group) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range g.Charges {
		delete(h.ledger.balances, account{g.Subject, c.Meter.Fingerprint})
	}
	return nil
}

// bansTooShort sets a ban by hand that ends a millisecond early.
func bansTooShort() penstock.Store { return &shortBanner{NewModel()} }

type shortBanner struct{ *Model }

func (b *shortBanner) Ban(ctx context.Context, ban *penstock.Ban) (penstock.Instant, error) {
	shorter := *ban
	if shorter.Length > time.Second {
		shorter.Length -= time.Millisecond
	}
	until, err := b.Model.Ban(ctx, &shorter)
	return until.Add(ban.Length - shorter.Length), err
}

// racyGuards reads under the lock, thinks, and writes what it made of it under the lock again.
func racyGuards() penstock.Store { return &racer{Model: NewModel()} }

type racer struct{ *Model }

func (r *racer) Take(_ context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	return r.apart(t.Groups[0].Subject, func(l ledger) error {
		l.take(t, instantOf(t.Now), out)
		return nil
	})
}

func (r *racer) Settle(_ context.Context, s *penstock.Settlement, out *penstock.Settled) error {
	return r.apart(s.Subject, func(l ledger) error { return l.settle(s, instantOf(s.Now), out) })
}

// apart does something on a copy and then keeps what has become of a subject.
func (r *racer) apart(who penstock.Subject, do func(l ledger) error) error {
	r.mu.Lock()
	mine := r.ledger.clone()
	r.mu.Unlock()
	for range 5 {
		runtime.Gosched()
	}
	err := do(mine)
	r.mu.Lock()
	defer r.mu.Unlock()
	for a, b := range mine.balances {
		if a.subject == who {
			r.ledger.balances[a] = b
		}
	}
	for c, record := range mine.calls {
		if c.subject == who {
			r.ledger.calls[c] = record
		}
	}
	for name, reservation := range mine.reservations {
		if name.subject == who {
			r.ledger.reservations[name] = reservation
		}
	}
	return err
}
