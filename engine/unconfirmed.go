package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A release or settlement that the store did not confirm is sent again, with backoff, until the store answers
// or the reservation has expired. Its name makes it take effect once. The same goes for the release of a
// ticket whose reply was lost: it may have taken a permit or a reservation that no request holds.

const (
	maxUnconfirmed = 10_000
	retriesAtOnce  = 16
	firstPause     = 10 * time.Millisecond
	longestPause   = time.Second
)

// A pendingSettlement is a settlement to be sent again.
type pendingSettlement struct {
	settler    storage.Settler
	settlement storage.Settlement
	rule       *rules.Rule // whose local counters learn the settled cost; nil: none do
	expires    penstock.Instant
}

// A chargeName names what one ticket took from one subject.
type chargeName struct {
	subject storage.Subject
	nonce   uint64
}

// An unconfirmedSet holds the settlements that are sent again, each by its own goroutine.
type unconfirmedSet struct {
	mu      sync.Mutex
	waiting map[chargeName]struct{}
	closing bool

	flush, stop chan struct{} // closed when no time is left for backoff, and when no time is left at all
	turns       chan struct{} // one for each running attempt
	ended       sync.WaitGroup
	dropped     atomic.Int64
}

func newUnconfirmedSet() *unconfirmedSet {
	return &unconfirmedSet{
		waiting: map[chargeName]struct{}{},
		flush:   make(chan struct{}), stop: make(chan struct{}), turns: make(chan struct{}, retriesAtOnce),
	}
}

// Stats count what the engine has done since it was created.
type Stats struct {
	Unconfirmed int64 // releases and settlements that are being sent again
	Dropped     int64 // of those, dropped: there were too many, or they expired, or the engine was closed
	Cancelled   int64 // requests whose caller left before they were decided
}

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	s := e.unconfirmed
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Unconfirmed: int64(len(s.waiting)), Dropped: s.dropped.Load(), Cancelled: e.cancelled.Load()}
}

// confirmAll sends all waiting settlements once more, without backoff, until all are confirmed or the context
// ends. What is not confirmed by then is dropped.
func (e *Engine) confirmAll(ctx context.Context) error {
	s := e.unconfirmed
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	close(s.flush)
	ended := make(chan struct{})
	go func() {
		s.ended.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	left := e.Stats().Unconfirmed
	close(s.stop)
	return fmt.Errorf("%d releases and settlements were not confirmed: %w", left, ctx.Err())
}

// retry sends a settlement again until the store answers.
func (e *Engine) retry(u pendingSettlement) {
	s, name := e.unconfirmed, chargeName{u.settlement.Subject, u.settlement.Nonce}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.waiting[name]; there {
		return // only one of them can take effect
	}
	if s.closing || len(s.waiting) == maxUnconfirmed {
		s.dropped.Add(1)
		return
	}
	s.waiting[name] = struct{}{}
	s.ended.Go(func() {
		if !e.confirm(&u) {
			s.dropped.Add(1)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, name)
	})
}

// confirm reports whether the store answered in time. Any answer is final, including a refusal.
func (e *Engine) confirm(u *pendingSettlement) bool {
	s := e.unconfirmed
	for pause := firstPause; s.wait(pause); pause = min(2*pause, longestPause) {
		if e.instant() >= u.expires {
			return false
		}
		s.turns <- struct{}{}
		var out storage.SettleOutcome
		err := e.settle(context.Background(), u.settler, &u.settlement, &out)
		<-s.turns
		if err == nil {
			e.echoSettled(u.rule, &u.settlement, &out)
		}
		if !errors.Is(err, penstock.ErrUnavailable) {
			return true
		}
	}
	return false
}

// wait waits for a pause, a short one if the set is being flushed. It returns false if no time is left.
func (s *unconfirmedSet) wait(pause time.Duration) bool {
	select {
	case <-time.After(pause):
	case <-s.flush:
		select {
		case <-time.After(firstPause):
		case <-s.stop:
		}
	}
	select {
	case <-s.stop:
		return false
	default:
		return true
	}
}

// releaseLost releases what a ticket whose reply was lost may have taken.
func (e *Engine) releaseLost(t *storage.Ticket, err error) {
	settler, ok := e.store.(storage.Settler)
	if !ok || t.Nonce == 0 || errors.Is(err, storage.ErrNotTaken) {
		return
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if !g.Names() {
			continue
		}
		s := storage.Settlement{Subject: g.Subject, Nonce: t.Nonce, Verb: penstock.Release, Lost: true}
		for _, c := range g.Charges {
			if g.Reserve != 0 || c.Meter.Kind == algorithm.KindLeases {
				s.Charges = append(s.Charges, c)
			}
		}
		e.retry(pendingSettlement{settler: settler, settlement: s, expires: e.instant().Add(g.Reserve + longestLease(s.Charges))})
	}
}

// settleLater sends a settlement again that the store did not confirm.
func (e *Engine) settleLater(settler storage.Settler, s *storage.Settlement, r *rules.Rule) {
	open := longestLease(s.Charges)
	if !s.OnlyLeases() {
		open = storage.MaxReserve // only the store knows its time to live
	}
	e.retry(pendingSettlement{settler: settler, settlement: *s, rule: r, expires: e.instant().Add(open)})
}

func longestLease(charges []algorithm.Charge) (longest time.Duration) {
	for _, c := range charges {
		if c.Meter.Kind == algorithm.KindLeases {
			longest = max(longest, time.Duration(c.Meter.Window)*time.Microsecond)
		}
	}
	return longest
}
