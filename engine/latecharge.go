package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// settle charges what is recorded for the keys of a ticket before the shared store decides it. While the
// store cannot be charged it must not decide either: it would not know what was admitted.
func (b *lateCharges) settle(ctx context.Context, groups []storage.Group) error {
	if b.pages.Load() == 0 {
		return nil
	}
	for i := range groups {
		if err := b.charge(ctx, groups[i].Subject); err != nil {
			return fmt.Errorf("request not sent, as an earlier one could not be charged: %w: %w", storage.ErrNotTaken, err)
		}
	}
	return nil
}

// charge charges all that is recorded for a key. Several goroutines may do so at once: they send the same
// charges, which take effect once.
func (b *lateCharges) charge(ctx context.Context, s storage.Subject) error {
	for {
		c := b.seal(s)
		if c == nil {
			return nil
		}
		err := b.send(ctx, c)
		if errors.Is(err, penstock.ErrUnavailable) && !errors.Is(err, storage.ErrCorrupt) {
			if !errors.Is(err, storage.ErrNotTaken) {
				b.maybeSent(c)
			}
			return err
		}
		b.close(c, err == nil)
	}
}

func (b *lateCharges) send(ctx context.Context, c *storage.LateCharge) (err error) {
	defer recoverPanic(&err)
	late := *c // a copy, as other goroutines may be sending it
	if b.now != nil {
		late.Now = b.now()
	}
	return b.charger.ChargeLate(ctx, &late)
}

// seal returns the next charge to send for a key, or nil if there is none. A sealed charge is sent again
// until the store confirms it. Admissions in the meantime are recorded for the charge after it.
func (b *lateCharges) seal(s storage.Subject) *storage.LateCharge {
	sh := b.shard(&s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.pages[s]
	if p == nil {
		return nil
	}
	if p.sealed != nil && !p.sent.IsZero() && time.Since(p.sent) > resendWithin {
		b.dropped.Add(int64(len(p.sealed.Amounts)))
		b.unseal(p)
	}
	if p.sealed == nil {
		if len(p.open) == 0 {
			b.remove(sh, s, p)
			return nil
		}
		n := min(len(p.open), storage.MaxCharges)
		p.sealed = &storage.LateCharge{Subject: s, Nonce: rand.Uint64() | 1, Amounts: p.open[:n:n]}
		p.open = append([]storage.LateAmount(nil), p.open[n:]...)
	}
	return p.sealed
}

// unseal removes the sealed charge. The shard must be locked.
func (b *lateCharges) unseal(p *page) {
	before := p.records()
	p.sealed, p.sent = nil, time.Time{}
	b.records.Add(p.records() - before)
}

// maybeSent notes that the store may have seen a charge.
func (b *lateCharges) maybeSent(c *storage.LateCharge) {
	sh := b.shard(&c.Subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p := sh.pages[c.Subject]; p != nil && p.sealed == c && p.sent.IsZero() {
		p.sent = time.Now()
	}
}

// close removes a charge that the store has confirmed, or will never accept.
func (b *lateCharges) close(c *storage.LateCharge, confirmed bool) {
	sh := b.shard(&c.Subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	p := sh.pages[c.Subject]
	if p == nil || p.sealed != c { // another goroutine was first
		return
	}
	if n := int64(len(c.Amounts)); confirmed {
		b.charged.Add(n)
	} else {
		b.dropped.Add(n)
	}
	b.unseal(p)
	if len(p.open) == 0 {
		b.remove(sh, c.Subject, p)
	}
}

const (
	chargeEvery = time.Millisecond       // in the background
	retryEvery  = 250 * time.Millisecond // while the store is unavailable
	chargeTime  = time.Second            // for one
)

// A background charges what no request charges. It runs while there is something to charge.
type background struct {
	mu      sync.Mutex
	running bool
	closed  bool
	stop    chan struct{} // created by the first run
	ended   sync.WaitGroup
}

func (b *lateCharges) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running || b.closed {
		return
	}
	if b.stop == nil {
		b.stop = make(chan struct{})
	}
	b.running = true
	b.ended.Go(b.run)
}

func (b *lateCharges) run() {
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-b.stop:
			return
		}
		s, there := b.pickAny()
		if !there && b.rest() {
			return
		}
		pause := chargeEvery
		if there && b.chargeWithin(context.Background(), s, chargeTime) != nil {
			pause = retryEvery
		}
		timer.Reset(pause)
	}
}

func (b *lateCharges) chargeWithin(ctx context.Context, s storage.Subject, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return b.charge(ctx, s)
}

// rest ends the run if nothing was recorded since.
func (b *lateCharges) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = b.pages.Load() > 0
	return !b.running
}

// pickAny returns a random key with something to charge: on a Redis Cluster, some keys may fail for a long time.
func (b *lateCharges) pickAny() (s storage.Subject, there bool) {
	first := rand.IntN(bookShards)
	for i := range bookShards {
		sh := &b.shards[(first+i)%bookShards]
		sh.mu.Lock()
		for s = range sh.pages {
			there = true
			break
		}
		sh.mu.Unlock()
		if there {
			return s, true
		}
	}
	return s, false
}

// flush charges everything that can be charged before the context ends, and then stops the background.
func (b *lateCharges) flush(ctx context.Context) error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	if first && b.stop != nil {
		close(b.stop)
	}
	b.mu.Unlock()
	b.ended.Wait()
	var failed error
	for i := range b.shards {
		for _, s := range b.shards[i].keys() {
			if ctx.Err() == nil {
				if err := b.charge(ctx, s); err != nil {
					failed = err
				}
			}
		}
	}
	left := b.pages.Load()
	if left == 0 {
		return nil
	}
	return fmt.Errorf("requests of %d keys that were admitted locally are not charged: %w", left, errors.Join(failed, ctx.Err()))
}

func (sh *lateChargeShard) keys() (all []storage.Subject) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for s := range sh.pages {
		all = append(all, s)
	}
	return all
}

// LateStats count what an engine has charged late, per key and limit.
type LateStats struct {
	Waiting int64 // keys with something to charge
	Charged int64
	Dropped int64 // there were too many to remember, or the store refused them
}

// LateStats returns the counts so far.
func (e *Engine) LateStats() LateStats {
	return LateStats{Waiting: e.books.pages.Load(), Charged: e.books.charged.Load(), Dropped: e.books.dropped.Load()}
}

// book records what the local store admitted. A reservation is recorded when it is settled.
func (e *Engine) book(w *workspace) {
	if !w.uncharged || e.books.charger == nil {
		return
	}
	for i := range w.asked {
		g, out := &w.turn.Ticket.Groups[i], &w.turn.Outcome.Groups[i]
		if !out.Taken || out.Replay || !w.asked[i].isLive() || g.Leased || g.Reserve != 0 {
			continue
		}
		limits := w.asked[i].limits.Meters
		for j := range g.Charges {
			e.books.add(g.Subject, limits[j], g.Charges[j].Cost, w.turn.Outcome.Now)
		}
	}
}
