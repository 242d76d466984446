package storetest

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A saboteur is a model whose ledger is tampered with before, after or instead of an operation.
type saboteur struct {
	*Model
	before func(l ledger, t *storage.Ticket)
	after  func(l ledger, t *storage.Ticket, out *storage.Outcome)
	settle func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error
}

func (s *saboteur) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
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

func (s *saboteur) Settle(ctx context.Context, settlement *storage.Settlement, out *storage.SettleOutcome) error {
	if s.settle == nil || settlement.Validate() != nil {
		return s.Model.Settle(ctx, settlement, out)
	}
	return s.locked(ctx, func() error {
		mine := *settlement
		mine.Now = instantOf(mine.Now)
		return s.settle(s.ledger, &mine, out)
	})
}

func beforeTakes(before func(l ledger, t *storage.Ticket)) storage.Store {
	return &saboteur{Model: NewModel(), before: before}
}

// beforePenalties tampers with the state of each group that has a penalty.
func beforePenalties(tamper func(l ledger, a stateKey, g *storage.Group, now algorithm.Instant)) storage.Store {
	return beforeTakes(func(l ledger, t *storage.Ticket) {
		for i := range t.Groups {
			if g := &t.Groups[i]; g.Penalty != nil {
				tamper(l, stateKey{g.Subject, algorithm.PenaltyFingerprint}, g, t.Now)
			}
		}
	})
}

// afterGroups tampers with the state after each group.
func afterGroups(tamper func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome)) storage.Store {
	return &saboteur{Model: NewModel(), after: func(l ledger, t *storage.Ticket, out *storage.Outcome) {
		for i := range t.Groups {
			tamper(l, t, &t.Groups[i], &out.Groups[i])
		}
	}}
}

func settlesBy(settle func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error) storage.Store {
	return &saboteur{Model: NewModel(), settle: settle}
}

func ignoresBans() storage.Store {
	return beforePenalties(func(l ledger, a stateKey, g *storage.Group, now algorithm.Instant) {
		if _, isBanned, _ := g.Penalty.Weigh(l.balances[a].penalty, now); isBanned {
			delete(l.balances, a)
		}
	})
}

func strike(l ledger, g *storage.Group, now algorithm.Instant) {
	a := stateKey{g.Subject, algorithm.PenaltyFingerprint}
	s, _, _ := g.Penalty.Weigh(l.balances[a].penalty, now)
	l.balances[a] = stateValue{penalty: g.Penalty.Strike(s, now)}
}

func strikesWhileBanned() storage.Store {
	return beforePenalties(func(l ledger, a stateKey, g *storage.Group, now algorithm.Instant) {
		if _, isBanned, _ := g.Penalty.Weigh(l.balances[a].penalty, now); isBanned && g.Spends() {
			strike(l, g, now)
		}
	})
}

func strikesForNever() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		for _, c := range g.Charges {
			if g.Penalty != nil && out.BannedUntil == 0 && !c.Meter.CanEver(c.Need()) {
				strike(l, g, t.Now)
			}
		}
	})
}

func strikesForOthers() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if g.Penalty != nil && out.Allowed && !out.Taken {
			strike(l, g, t.Now)
		}
	})
}

// believesAnyBan believes the end of a ban, however far off a wrong clock has put it.
func believesAnyBan() storage.Store {
	return beforePenalties(func(l ledger, a stateKey, _ *storage.Group, now algorithm.Instant) {
		if s := l.balances[a].penalty; s.Length < int64(s.At-now) {
			s.Length = int64(s.At - now)
			l.balances[a] = stateValue{penalty: s}
		}
	})
}

func withTerms(change func(t *algorithm.PenaltyTerms)) storage.Store {
	return beforePenalties(func(_ ledger, _ stateKey, g *storage.Group, _ algorithm.Instant) {
		terms := g.Penalty.Terms()
		change(&terms)
		g.Penalty = must(terms.Compile())
	})
}

func neverForgives() storage.Store {
	return withTerms(func(t *algorithm.PenaltyTerms) { t.ForgiveAfter = algorithm.MaxWindow })
}

func startsOverAfterTheLastBan() storage.Store {
	return withTerms(func(t *algorithm.PenaltyTerms) {
		t.Bans = append(t.Bans[:len(t.Bans):len(t.Bans)], algorithm.MaxWindow)
	})
}

// chargesWhileBanned weighs and charges as if there were no ban, and then denies.
func chargesWhileBanned() storage.Store {
	return &saboteur{Model: NewModel(), after: func(l ledger, t *storage.Ticket, out *storage.Outcome) {
		for i := range t.Groups {
			if out.Groups[i].BannedUntil != 0 {
				g := t.Groups[i]
				g.Penalty = nil
				l.take(&storage.Ticket{Now: t.Now, Nonce: t.Nonce, MaxDelay: t.MaxDelay, Groups: []storage.Group{g}}, t.Now, new(storage.Outcome))
			}
		}
	}}
}

func afterReplays(tamper func(r *algorithm.Record, now algorithm.Instant)) storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if out.Replay && out.Taken {
			record := l.calls[callKey{g.Subject, g.Call}]
			tamper(&record, t.Now)
			l.calls[callKey{g.Subject, g.Call}] = record
		}
	})
}

func refreshesRecords() storage.Store {
	return afterReplays(func(r *algorithm.Record, now algorithm.Instant) { r.First = now })
}

func forgetsReplays() storage.Store {
	return afterReplays(func(r *algorithm.Record, _ algorithm.Instant) { r.Replays = 0 })
}

func ignoresBudget() storage.Store {
	return afterGroups(func(l ledger, _ *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if out.Replay {
			delete(l.balances, stateKey{g.Subject, g.Dedup.Budget.Fingerprint})
		}
	})
}

func recordsDenied() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if g.Remembers() && !out.Taken && !out.Replay {
			l.calls[callKey{g.Subject, g.Call}] = algorithm.Record{First: t.Now}
		}
	})
}

func confusesIDs() storage.Store {
	return beforeTakes(func(_ ledger, t *storage.Ticket) {
		for i := range t.Groups {
			if t.Groups[i].Call != (storage.CallID{}) {
				t.Groups[i].Call = storage.CallID{1}
			}
		}
	})
}

// chargesReplays charges a duplicate like any request.
func chargesReplays() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if out.Replay && out.Taken {
			bare := storage.Group{Subject: g.Subject, Charges: g.Charges}
			l.take(&storage.Ticket{Now: t.Now, Nonce: t.Nonce, MaxDelay: t.MaxDelay, Groups: []storage.Group{bare}}, t.Now, new(storage.Outcome))
		}
	})
}

// countsBudgetInWindows counts duplicates in fixed windows, whatever limit they are combined with.
func countsBudgetInWindows() storage.Store {
	return beforeTakes(func(_ ledger, t *storage.Ticket) {
		for i := range t.Groups {
			if d := t.Groups[i].Dedup; d != nil {
				terms := d.Terms()
				terms.Beside = algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: terms.Beside.Window, Period: terms.Beside.Period, Location: terms.Beside.Location}
				t.Groups[i].Dedup = must(terms.Compile())
			}
		}
	})
}

// permitlessReplays lets a duplicate run without its own permit.
func permitlessReplays() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		for _, c := range g.Charges {
			if out.Replay && out.Taken && c.TakesPermit() {
				a := stateKey{g.Subject, c.Meter.Fingerprint}
				entries, _ := c.Meter.DropLease(slices.Clone(l.balances[a].entries), t.Now, t.Nonce)
				l.balances[a] = stateValue{entries: entries}
			}
		}
	})
}

// concludesOriginals reports what the original took as if the duplicate had taken it.
func concludesOriginals() storage.Store {
	return afterGroups(func(_ ledger, _ *storage.Ticket, _ *storage.Group, out *storage.GroupOutcome) {
		if out.Replay && out.Taken {
			out.Nonce = out.Original
		}
	})
}

// strikesForReplays counts a strike for a duplicate that finds no permit.
func strikesForReplays() storage.Store {
	return afterGroups(func(l ledger, t *storage.Ticket, g *storage.Group, out *storage.GroupOutcome) {
		if g.Penalty != nil && out.Replay && !out.Allowed {
			strike(l, g, t.Now)
		}
	})
}

func reservesTooLong() storage.Store {
	return beforeTakes(func(_ ledger, t *storage.Ticket) {
		for i := range t.Groups {
			t.Groups[i].Reserve = min(2*t.Groups[i].Reserve, storage.MaxReserve)
		}
	})
}

func overdrawsWithoutBound() storage.Store {
	return beforeTakes(func(_ ledger, t *storage.Ticket) {
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
func overdrawsFromNothing() storage.Store {
	return beforeTakes(func(_ ledger, t *storage.Ticket) {
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

// resetsHalf forgets the counters, but leaves the ban and the reservations.
func resetsHalf() storage.Store { return &halfResetter{NewModel()} }

type halfResetter struct{ *Model }

func (h *halfResetter) Reset(_ context.Context, g *storage.Group) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range g.Charges {
		delete(h.ledger.balances, stateKey{g.Subject, c.Meter.Fingerprint})
	}
	return nil
}

// bansTooShort sets a manual ban that ends a millisecond early.
func bansTooShort() storage.Store { return &shortBanner{NewModel()} }

type shortBanner struct{ *Model }

func (b *shortBanner) Ban(ctx context.Context, ban *storage.Ban) (algorithm.Instant, error) {
	shorter := *ban
	if shorter.Length > time.Second {
		shorter.Length -= time.Millisecond
	}
	until, err := b.Model.Ban(ctx, &shorter)
	return until.Add(ban.Length - shorter.Length), err
}

// racyGuards reads under the lock, computes without it, and writes the result under the lock again.
func racyGuards() storage.Store { return &racer{Model: NewModel()} }

type racer struct{ *Model }

func (r *racer) Take(_ context.Context, t *storage.Ticket, out *storage.Outcome) error {
	return r.apart(t.Groups[0].Subject, func(l ledger) error {
		l.take(t, instantOf(t.Now), out)
		return nil
	})
}

func (r *racer) Settle(_ context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	return r.apart(s.Subject, func(l ledger) error { return l.settle(s, instantOf(s.Now), out) })
}

// apart runs a function on a copy and then keeps the resulting state of a subject.
func (r *racer) apart(who storage.Subject, do func(l ledger) error) error {
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
