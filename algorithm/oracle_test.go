package algorithm

import (
	"math/big"
	"time"
)

// An oracle is an algorithm written only for clarity: it replays what was charged, in exact fractions, by
// another formula than the code under test. All of them follow one rule: a cost passes if what is consumed
// and the cost fit into the capacity.
type oracle interface {
	// consumed returns what counts against the capacity at now.
	consumed(now Instant) *big.Rat
	charge(now Instant, cost int64) *event
	// chargeDenied records a denied request under count_denied.
	chargeDenied(now Instant, cost int64)
	// giveBack reduces the cost of a charge by back.
	giveBack(now Instant, e *event, back int64)
}

// An event is a charge, dated as it counts.
type event struct {
	at   Instant
	cost int64
}

func newOracle(l Limit) oracle {
	w, tick := Instant(l.Window.Microseconds()), Instant(1)
	switch {
	case l.Window > 10*time.Hour:
		tick = 1_000_000
	case l.Window > 10*time.Second:
		tick = 1_000
	}
	switch l.Algorithm {
	case FixedWindow:
		return &windowOracle{history{limit: l.Count, window: w}}
	case SlidingWindowCounter:
		return &counterOracle{history: history{limit: l.Count, window: w}, tick: tick}
	case SlidingWindowLog:
		return &logOracle{history{limit: l.Count, window: w}}
	case LeakyBucket:
		return &queueOracle{spacing: big.NewRat(int64(w/tick), l.Count), tick: tick, next: new(big.Rat)}
	}
	burst := l.Burst
	if burst == 0 {
		burst = l.Count
	}
	if l.Refill == Interval {
		return &intervalOracle{count: l.Count, burst: burst, window: w, tokens: burst}
	}
	return &tokenOracle{rate: big.NewRat(l.Count, int64(w/tick)), burst: rat(burst), tick: tick, window: w, tokens: rat(burst)}
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func ceil(r *big.Rat) int64 {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// history is every charge so far. What is given back was never charged: once its window has ended that makes
// no difference.
type history struct {
	limit  int64
	window Instant
	past   []*event
}

func (h *history) add(now Instant, cost int64) *event {
	e := &event{now, cost}
	h.past = append(h.past, e)
	return e
}

// between sums what was charged in [from, to).
func (h *history) between(from, to Instant) (sum int64) {
	for _, e := range h.past {
		if from <= e.at && e.at < to {
			sum += e.cost
		}
	}
	return sum
}

// start returns the start of the window of now, or of the last charge's if the clock is behind it.
func (h *history) start(now Instant) Instant {
	if n := len(h.past); n > 0 {
		now = max(now, h.past[n-1].at/h.window*h.window)
	}
	return now / h.window * h.window
}

// charge dates a charge at the start of the window while the clock is behind.
func (h *history) charge(now Instant, cost int64) *event { return h.add(max(now, h.start(now)), cost) }

// chargeDenied counts no further than to one above the limit.
func (h *history) chargeDenied(now Instant, cost int64) {
	start := h.start(now)
	h.charge(now, max(0, min(cost, h.limit+1-h.between(start, start+h.window))))
}

func (h *history) giveBack(now Instant, e *event, back int64) {
	e.cost -= back
	h.charge(now, 0) // marks the instant: time does not run backwards from here
}

type windowOracle struct{ history }

func (o *windowOracle) consumed(now Instant) *big.Rat {
	start := o.start(now)
	return rat(o.between(start, start+o.window))
}

type counterOracle struct {
	history
	tick Instant
}

func (o *counterOracle) consumed(now Instant) *big.Rat {
	start := o.start(now)
	gone := (max(now, start) - start) / o.tick * o.tick
	fading := big.NewRat(int64(o.window-gone), int64(o.window))
	fading.Mul(fading, rat(o.between(start-o.window, start)))
	return fading.Add(fading, rat(o.between(start, start+o.window)))
}

type logOracle struct{ history }

func (o *logOracle) now(now Instant) Instant {
	if n := len(o.past); n > 0 {
		return max(now, o.past[n-1].at)
	}
	return now
}

func (o *logOracle) consumed(now Instant) *big.Rat {
	now = o.now(now)
	return rat(o.between(now-o.window+1, now+1))
}

func (o *logOracle) charge(now Instant, cost int64) *event {
	if cost == 0 {
		return nil // no entry, and time may run backwards
	}
	return o.add(o.now(now), cost)
}

// chargeDenied drops the oldest while the rest is still above the limit, and of the oldest then what is more than one
// above the limit, except for a debt.
func (o *logOracle) chargeDenied(now Instant, cost int64) {
	most := max(o.limit+1, o.between(o.now(now)-o.window+1, MaxInstant))
	o.charge(now, min(cost, o.limit))
	for o.between(o.past[0].at, MaxInstant)-o.past[0].cost > o.limit {
		o.past = o.past[1:]
	}
	o.past[0].cost -= max(0, o.between(o.past[0].at, MaxInstant)-most)
}

// giveBack is void once the charge has left the window, even if the clock then steps back.
func (o *logOracle) giveBack(now Instant, e *event, back int64) {
	if e.at > o.now(now)-o.window {
		e.cost -= back
	}
}

// tokenOracle is a bucket of tokens in fractions, filled up to the last charge.
type tokenOracle struct {
	rate, burst  *big.Rat // rate is per tick
	tick, window Instant
	tokens       *big.Rat // negative in debt
	last         Instant
}

func (o *tokenOracle) at(now Instant) *big.Rat {
	ticks := max(now, o.last)/o.tick - o.last/o.tick
	t := new(big.Rat).Mul(o.rate, rat(int64(ticks)))
	if t.Add(t, o.tokens); t.Cmp(o.burst) > 0 {
		t.Set(o.burst)
	}
	return t
}

func (o *tokenOracle) consumed(now Instant) *big.Rat { return new(big.Rat).Sub(o.burst, o.at(now)) }

func (o *tokenOracle) charge(now Instant, cost int64) *event {
	o.tokens = o.at(now)
	o.tokens.Sub(o.tokens, rat(cost))
	o.last = max(now, o.last)
	return &event{o.last, cost}
}

func (o *tokenOracle) chargeDenied(Instant, int64) {}

// giveBack puts tokens into the bucket, which may overflow.
func (o *tokenOracle) giveBack(now Instant, e *event, back int64) {
	if o.charge(now, 0); o.last-e.at >= o.window {
		return
	}
	if o.tokens.Add(o.tokens, rat(back)); o.tokens.Cmp(o.burst) > 0 {
		o.tokens.Set(o.burst)
	}
}

// intervalOracle pours the tokens in one interval after the other.
type intervalOracle struct {
	count, burst int64
	window       Instant
	tokens       int64
	last         Instant
}

func (o *intervalOracle) consumed(now Instant) *big.Rat {
	tokens := o.tokens
	for refill := o.last/o.window*o.window + o.window; refill <= now && tokens < o.burst; refill += o.window {
		tokens = min(tokens+o.count, o.burst)
	}
	return rat(o.burst - tokens)
}

func (o *intervalOracle) charge(now Instant, cost int64) *event {
	o.tokens = o.burst - ceil(o.consumed(now)) - cost
	o.last = max(now, o.last)
	return &event{max(now, o.last/o.window*o.window), cost}
}

func (o *intervalOracle) chargeDenied(Instant, int64) {}

func (o *intervalOracle) giveBack(now Instant, e *event, back int64) {
	if o.charge(now, 0); o.last/o.window == e.at/o.window {
		o.tokens = min(o.tokens+back, o.burst)
	}
}

// queueOracle only knows when the next request may leave a queue.
type queueOracle struct {
	spacing *big.Rat // in ticks
	tick    Instant
	next    *big.Rat // in ticks
	last    Instant
}

func (o *queueOracle) ahead(now Instant) *big.Rat {
	d := new(big.Rat).Sub(o.next, rat(int64(max(now, o.last)/o.tick)))
	if d.Sign() < 0 {
		d.SetInt64(0)
	}
	return d
}

func (o *queueOracle) consumed(now Instant) *big.Rat {
	d := o.ahead(now)
	return d.Quo(d, o.spacing)
}

// delay returns how long after now the next request may start.
func (o *queueOracle) delay(now Instant) time.Duration {
	start := max(now, o.last)
	if d := o.ahead(now); d.Sign() > 0 {
		start = (start/o.tick + Instant(ceil(d))) * o.tick
	}
	return start.Sub(now)
}

func (o *queueOracle) charge(now Instant, cost int64) *event {
	now = max(now, o.last)
	o.next = o.ahead(now)
	o.next.Add(o.next, rat(int64(now/o.tick)))
	o.next.Add(o.next, new(big.Rat).Mul(o.spacing, rat(cost)))
	o.last = now
	return &event{now, cost}
}

func (o *queueOracle) chargeDenied(Instant, int64) {}

// giveBack is not for queues.
func (o *queueOracle) giveBack(Instant, *event, int64) {}
