package storetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	historyKeys    = 3
	historyClients = 8
	historyCalls   = 60 // of each client
)

// A plot says what happens in a history.
type plot struct {
	guarded bool // groups have guards
	several bool // tickets have several subjects
	plain   bool // requests only
}

// A history is what clients of a few subjects did on the real clock.
type history struct {
	plot
	cast       []storage.Subject
	groups     []storage.Group // one per subject, from its rule
	operations []porcupine.Operation

	mu    sync.Mutex
	errs  []error
	named []takenNonce
	began time.Time
}

// A timedStep is a step and the instants between which it was made.
type timedStep struct {
	step
	called, returned algorithm.Instant
}

// recordHistory lets clients make requests for a few subjects, with windows so short that quota becomes
// free during the history.
func recordHistory(nodes []storage.Store, r *rand.Rand, p plot) (*history, error) {
	h := &history{plot: p, cast: newSubjects(historyKeys), began: time.Now()}
	for range h.cast {
		g := storage.Group{Charges: shortLimits(r)}
		if p.guarded {
			shortGuards(r, &g)
		}
		h.groups = append(h.groups, g)
	}
	var wg sync.WaitGroup
	for client := range historyClients {
		mine := random(r.Uint64(), client)
		wg.Go(func() {
			for range historyCalls {
				a := &timedStep{step: h.next(mine)}
				a.node = mine.IntN(len(nodes))
				if often(mine, 10) {
					time.Sleep(time.Duration(mine.Int64N(int64(2 * time.Millisecond))))
				}
				h.make(nodes, client, a)
			}
		})
	}
	wg.Wait()
	return h, errors.Join(h.errs...)
}

func (h *history) make(nodes []storage.Store, client int, a *timedStep) {
	called := time.Now()
	got, err := play(nodes, h.cast, &a.step)
	returned := time.Now()
	a.called, a.returned = algorithm.InstantOf(called), algorithm.InstantOf(returned)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
	h.operations = append(h.operations, porcupine.Operation{
		ClientId: client, Input: a, Output: &got, Call: called.Sub(h.began).Nanoseconds(), Return: returned.Sub(h.began).Nanoseconds(),
	})
	for i, g := range got.outcome.Groups {
		if g.Nonce != 0 {
			h.named = append(h.named, takenNonce{a.who[i], g.Nonce, takenBy(&a.ticket.Groups[i], &g)})
		}
	}
}

// next returns a request or, with guards, sometimes a settlement by any client or a ban. It never returns a
// lift, because a lift does not report its instant.
func (h *history) next(r *rand.Rand) step {
	if h.guarded && !h.plain {
		switch n := r.IntN(100); {
		case n < 25:
			if s, ok := h.settlement(r); ok {
				return s
			}
		case n < 27:
			who := r.IntN(len(h.cast))
			if p := h.groups[who].Penalty; p != nil {
				return step{ban: &storage.Ban{Penalty: p, Length: shortSpan(r)}, who: []int{who}}
			}
		}
	}
	return h.call(r)
}

// call charges one of the groups, or several in any order.
func (h *history) call(r *rand.Rand) step {
	s := step{ticket: storage.Ticket{MaxDelay: algorithm.AnyDelay, Nonce: r.Uint64() | 1}}
	n := 1
	if h.several {
		n += r.IntN(len(h.groups))
	}
	for _, i := range r.Perm(len(h.groups))[:n] {
		g := h.groups[i]
		g.Charges = withCosts(r, g.Charges, h.guarded)
		g.Alone = n > 1 && often(r, 20)
		if g.Dedup != nil && often(r, 80) {
			g.Call = hasher.Call(pick(r, "a", "b", "c"))
		}
		s.ticket.Groups = append(s.ticket.Groups, g)
		s.who = append(s.who, i)
	}
	return s
}

func (h *history) settlement(r *rand.Rand) (step, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.named) == 0 {
		return step{}, false
	}
	taken := h.named[max(0, len(h.named)-1-r.IntN(10))]
	s := storage.Settlement{
		Nonce: taken.nonce, Verb: pick(r, storage.Settle, storage.Settle, storage.Release, storage.Renew),
		Overage: algorithm.Overage(r.IntN(3)), TTL: shortSpan(r),
	}
	if s.Verb == storage.Settle && often(r, 50) {
		s.Strike = h.groups[taken.who].Penalty
	}
	for _, c := range taken.charges {
		if c.Meter.Returns() == nil {
			s.Charges = append(s.Charges, algorithm.Charge{Meter: c.Meter, Cost: r.Int64N(4)})
		}
	}
	return step{settle: &s, who: []int{taken.who}}, len(s.Charges) > 0
}

// shortLimits returns one to three limits of different kinds.
func shortLimits(r *rand.Rand) []algorithm.Charge {
	var charges []algorithm.Charge
	for _, k := range r.Perm(len(kinds))[:1+r.IntN(3)] {
		l := algorithm.Limit{Count: 2 + r.Int64N(8), Window: shortSpan(r)}
		switch kinds[k] {
		case algorithm.KindWindow, algorithm.KindCalendar:
			l.Algorithm, l.CountDenied = algorithm.FixedWindow, often(r, 30)
		case algorithm.KindCounter:
			l.Algorithm, l.CountDenied = algorithm.SlidingWindowCounter, often(r, 30)
		case algorithm.KindBucket:
			l.Algorithm, l.Burst, l.Overdraft = algorithm.TokenBucket, 2*l.Count, 3
		case algorithm.KindInterval:
			l.Algorithm, l.Refill = algorithm.TokenBucket, algorithm.Interval
		case algorithm.KindLeaky:
			l.Algorithm, l.Queue = algorithm.LeakyBucket, l.Count
		case algorithm.KindLog:
			l.Algorithm, l.CountDenied = algorithm.SlidingWindowLog, often(r, 30)
		case algorithm.KindLeases:
			l.Algorithm = algorithm.Concurrency
		}
		l.Ordinal = uint8(k)
		charges = append(charges, algorithm.Charge{Meter: l.MustCompile()})
	}
	return charges
}

func shortSpan(r *rand.Rand) time.Duration {
	return pick(r, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond)
}

// shortGuards adds guards to a group that begin and end many times in a history.
func shortGuards(r *rand.Rand, g *storage.Group) {
	if often(r, 60) {
		g.Penalty = must(algorithm.PenaltyTerms{
			After: 1 + r.Int64N(4), Within: shortSpan(r), ForgiveAfter: shortSpan(r),
			Bans: []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond},
		}.Compile())
	}
	if often(r, 60) {
		g.Dedup = must(algorithm.DedupTerms{TTL: shortSpan(r), MaxReplays: 1 + r.Int64N(3), Budget: 1 + r.Int64N(5), Beside: pick(r, g.Charges...).Meter.Limit()}.Compile())
	}
	for _, c := range g.Charges {
		if c.Meter.Returns() != nil {
			return
		}
	}
	g.Reserve = shortSpan(r)
}

func withCosts(r *rand.Rand, charges []algorithm.Charge, overdraw bool) []algorithm.Charge {
	out := make([]algorithm.Charge, len(charges))
	for i, c := range charges {
		out[i] = algorithm.Charge{Meter: c.Meter, Cost: pick[int64](r, 0, 1, 1, 1, 1, 2, 3)}
		out[i].Overdraw = overdraw && c.Meter.Overdraft > 0 && often(r, 30)
	}
	return out
}
