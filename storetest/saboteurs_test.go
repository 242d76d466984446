package storetest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// takeFunc makes a function a store.
type takeFunc func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error

func (f takeFunc) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	return f(ctx, t, out)
}

// altered asks a model something other than it was asked.
func altered(alter func(t *storage.Ticket)) storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		if err := t.Validate(); err != nil {
			return err
		}
		other := deepCopy(t)
		alter(other)
		return model.Take(ctx, other, out)
	})
}

func deepCopy(t *storage.Ticket) *storage.Ticket {
	c := *t
	c.Groups = slices.Clone(c.Groups)
	for i := range c.Groups {
		c.Groups[i].Charges = slices.Clone(c.Groups[i].Charges)
	}
	return &c
}

// answering changes the answers of a model.
func answering(alter func(t *storage.Ticket, out *storage.Outcome)) storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		err := model.Take(ctx, t, out)
		if err == nil {
			alter(t, out)
		}
		return err
	})
}

// limitsChanged decides with other limits, but reports the right one.
func limitsChanged(change func(l *algorithm.Limit)) storage.Store {
	asked := altered(func(t *storage.Ticket) {
		for i := range t.Groups {
			for j := range t.Groups[i].Charges {
				c := &t.Groups[i].Charges[j]
				l := c.Meter.Limit()
				change(&l)
				if m, err := l.Compile(); err == nil {
					c.Meter = m
				}
			}
		}
	})
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		err := asked.Take(ctx, t, out)
		i := 0
		for _, g := range t.Groups {
			for _, c := range g.Charges {
				if err == nil {
					d := &out.Decisions[i]
					d.Limit = c.Meter.Capacity
					d.Remaining = max(0, d.Limit-d.Used)
					i++
				}
			}
		}
		return err
	})
}

func chargesDenied() storage.Store {
	return limitsChanged(func(l *algorithm.Limit) { l.CountDenied = true })
}

func oneTooMany() storage.Store { return limitsChanged(func(l *algorithm.Limit) { more(l, 1) }) }

func oneTooFew() storage.Store { return limitsChanged(func(l *algorithm.Limit) { more(l, -1) }) }

func more(l *algorithm.Limit, n int64) {
	switch {
	case l.Algorithm == algorithm.LeakyBucket:
		l.Queue += n
	case l.Burst != 0:
		l.Burst += n
	default:
		l.Count += n
	}
}

// unawareOfDenials charges requests that were denied elsewhere.
func unawareOfDenials() storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		mine := *t
		mine.Denied = false
		return model.Take(ctx, &mine, out)
	})
}

// racy reads under the lock, computes without it, and writes under the lock again: not a data race, but a
// lost update.
func racy() storage.Store {
	var mu sync.Mutex
	shared := newLedger()
	return takeFunc(func(_ context.Context, t *storage.Ticket, out *storage.Outcome) error {
		mu.Lock()
		mine := shared.clone()
		mu.Unlock()
		for range 5 {
			runtime.Gosched()
		}
		mine.take(t, instantOf(t.Now), out)
		mu.Lock()
		defer mu.Unlock()
		for _, g := range t.Groups {
			for _, c := range g.Charges {
				a := stateKey{g.Subject, c.Meter.Fingerprint}
				if r, ok := mine.balances[a]; ok {
					shared.balances[a] = r
				}
			}
		}
		return nil
	})
}

// forgetsOnStepBack answers from an empty state once the clock has stepped back.
func forgetsOnStepBack() storage.Store {
	var mu sync.Mutex
	last := map[storage.Subject]algorithm.Instant{}
	steps := map[storage.Subject]byte{}
	return altered(func(t *storage.Ticket) {
		mu.Lock()
		defer mu.Unlock()
		now := instantOf(t.Now)
		for i := range t.Groups {
			who := t.Groups[i].Subject
			if now < last[who] {
				steps[who]++
			}
			last[who] = now
			t.Groups[i].Subject[0] ^= steps[who]
		}
	})
}

func chargesPeeks() storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		if err := model.Take(ctx, t, out); err != nil {
			return err
		}
		charged := deepCopy(t)
		charged.Nonce |= 1
		peeked := false
		for i := range charged.Groups {
			for j := range charged.Groups[i].Charges {
				c := &charged.Groups[i].Charges[j]
				peeked = peeked || c.Cost == 0
				c.Cost = max(0, 1-c.Cost)
			}
		}
		if peeked {
			return model.Take(ctx, charged, new(storage.Outcome))
		}
		return nil
	})
}

// chargesSome takes every limit by itself, whatever the others decide.
func chargesSome() storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		split := *t
		split.Groups = nil
		for _, g := range t.Groups {
			for _, c := range g.Charges {
				split.Groups = append(split.Groups, storage.Group{Subject: g.Subject, Alone: true, Charges: []algorithm.Charge{c}})
			}
		}
		var parts storage.Outcome
		if err := model.Take(ctx, t, out); err != nil || len(split.Groups) == 1 || out.Allowed {
			return err
		}
		return model.Take(ctx, &split, &parts)
	})
}

func promisesTooMuch() storage.Store   { return shifted(-time.Microsecond, 0) }
func promisesTooLittle() storage.Store { return shifted(time.Microsecond, 0) }
func resetsTooEarly() storage.Store    { return shifted(0, -time.Microsecond) }

func shifted(retry, reset time.Duration) storage.Store {
	return answering(func(_ *storage.Ticket, out *storage.Outcome) {
		for i := range out.Decisions {
			d := &out.Decisions[i]
			if d.RetryAfter > 0 {
				d.RetryAfter += retry
			}
			if d.ResetAfter > 0 {
				d.ResetAfter += reset
			}
		}
	})
}

func ignoresContext() storage.Store {
	model := NewModel()
	return takeFunc(func(_ context.Context, t *storage.Ticket, out *storage.Outcome) error {
		return model.Take(context.Background(), t, out)
	})
}

func appendsToOutcome() storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		var mine storage.Outcome
		err := model.Take(ctx, t, &mine)
		out.Now, out.Allowed = mine.Now, mine.Allowed
		out.Groups = append(out.Groups, mine.Groups...)
		out.Decisions = append(out.Decisions, mine.Decisions...)
		return err
	})
}

func takesInvalid() storage.Store {
	var mu sync.Mutex
	l := newLedger()
	return takeFunc(func(_ context.Context, t *storage.Ticket, out *storage.Outcome) error {
		mu.Lock()
		defer mu.Unlock()
		l.take(t, instantOf(t.Now), out) // panics on some
		return nil
	})
}

// confusesSubjects drops bits of a subject, as a hash table might.
func confusesSubjects() storage.Store {
	return altered(func(t *storage.Ticket) {
		for i := range t.Groups {
			clear(t.Groups[i].Subject[8:])
		}
	})
}

// answersAnothers sometimes gives a client the reply to an earlier request of another client.
func answersAnothers() storage.Store {
	var n atomic.Int64
	var mu sync.Mutex
	var earlier storage.Outcome
	return answering(func(_ *storage.Ticket, out *storage.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if n.Add(1)%100 == 0 && len(earlier.Decisions) == len(out.Decisions) {
			*out = earlier
		}
		earlier = storage.Outcome{Now: out.Now, Allowed: out.Allowed, Groups: slices.Clone(out.Groups), Decisions: slices.Clone(out.Decisions)}
	})
}

// chargesImpossible takes a unit for a cost that can never pass.
func chargesImpossible() storage.Store {
	model := NewModel()
	return takeFunc(func(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
		if err := model.Take(ctx, t, out); err != nil {
			return err
		}
		if i := slices.IndexFunc(out.Decisions, func(d algorithm.Decision) bool { return d.RetryAfter == algorithm.Never }); i < 0 {
			return nil
		}
		charged := deepCopy(t)
		for i := range charged.Groups {
			for j := range charged.Groups[i].Charges {
				charged.Groups[i].Charges[j].Cost = 1
			}
		}
		charged.Nonce |= 1
		return model.Take(ctx, charged, new(storage.Outcome))
	})
}
