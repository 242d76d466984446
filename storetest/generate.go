package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A generator creates a trace step by step and watches the answers, because the instants and costs that
// matter are those where an answer changes.
type generator struct {
	r          *rand.Rand
	nodes      int
	cast       int
	oneSubject bool
	meters     []*algorithm.Meter
	now        algorithm.Instant
	steps      int
	from       algorithm.Instant // earliest instant
	calm       bool              // the clock hardly steps, so lists grow long
	nonces     []uint64

	rule *rule // nil: limits only

	found *storage.Outcome // of the last request
}

// Instants of traces stay where periods can be computed on both sides.
var (
	earliest = algorithm.InstantOf(time.Date(1972, 1, 1, 0, 0, 0, 0, time.UTC))
	latest   = algorithm.InstantOf(time.Date(2105, 1, 1, 0, 0, 0, 0, time.UTC))
)

// turns are instants near which calendars are hard: clocks go forward, back and over midnight.
var turns = []time.Time{
	time.Date(2024, 3, 31, 0, 59, 0, 0, time.UTC),   // Berlin forward
	time.Date(2024, 10, 27, 0, 30, 0, 0, time.UTC),  // Berlin back
	time.Date(2018, 11, 4, 2, 59, 0, 0, time.UTC),   // São Paulo skips midnight
	time.Date(2019, 2, 17, 1, 59, 0, 0, time.UTC),   // São Paulo has 23:00 twice
	time.Date(2022, 3, 26, 21, 59, 0, 0, time.UTC),  // Beirut skips midnight
	time.Date(2021, 10, 2, 15, 29, 0, 0, time.UTC),  // Lord Howe by half an hour
	time.Date(2011, 12, 30, 9, 59, 0, 0, time.UTC),  // Apia skips a day
	time.Date(2010, 11, 7, 2, 30, 0, 0, time.UTC),   // St. John's back over midnight
	time.Date(2024, 2, 28, 23, 59, 0, 0, time.UTC),  // leap day
	time.Date(2024, 12, 31, 22, 59, 0, 0, time.UTC), // a year ends
}

func newGenerator(r *rand.Rand, nodes int, oneSubject bool) *generator {
	g := &generator{r: r, nodes: nodes, cast: 2, oneSubject: oneSubject, steps: 50 + r.IntN(300), from: earliest}
	for range 1 + r.IntN(4) {
		m := anyMeter(r, pick(r, kinds...))
		if often(r, 25) { // two of the same kind and window side by side
			l := m.Limit()
			if often(r, 50) {
				l.Ordinal = (l.Ordinal + 1) % (algorithm.MaxOrdinal + 1)
			} else {
				l.Scope = r.Uint64() | 1
			}
			g.meters = append(g.meters, l.MustCompile())
		}
		g.meters = append(g.meters, m)
	}
	if often(r, 2) {
		g.deep()
	}
	if often(r, 5) { // windows that began before the epoch
		g.from = 1
		g.now = 1 + algorithm.Instant(r.Int64N(2*pick(r, g.meters...).Window))
	} else if often(r, 50) {
		g.now = algorithm.InstantOf(pick(r, turns...)) + algorithm.Instant(r.Int64N(int64(2*time.Hour/time.Microsecond)))
	} else {
		g.now = earliest + algorithm.Instant(r.Int64N(int64(latest-earliest)))
	}
	g.nonces = []uint64{1, 2, 3, 1 << 63, 1<<64 - 1, r.Uint64() | 1}
	return g
}

// deep makes the trace a long one over a list of hundreds of entries.
func (g *generator) deep() {
	l := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100 + g.r.Int64N(1000), Window: time.Hour}
	if often(g.r, 30) {
		l.Algorithm = algorithm.Concurrency
	}
	g.meters = append(g.meters[:0], l.MustCompile())
	g.steps, g.calm, g.cast = 1500, true, 1
}

// next returns the next step. The caller passes the answer to seen.
func (g *generator) next() step {
	g.now = g.when()
	if often(g.r, 2) && (!g.calm || often(g.r, 5)) {
		i := g.r.IntN(len(g.meters))
		g.meters[i] = changed(g.r, g.meters[i])
	}
	s := step{node: g.r.IntN(g.nodes)}
	t := &s.ticket
	t.Now, t.MaxDelay, t.Nonce, t.Denied = g.now, g.maxDelay(), g.nonce(), often(g.r, 3)
	groups := 1
	if often(g.r, 20) || g.rule != nil && often(g.r, 20) {
		groups = 1 + g.r.IntN(3)
	}
	who := g.r.IntN(g.cast)
	for range groups {
		t.Groups = append(t.Groups, storage.Group{Charges: g.charges(), Alone: groups > 1 && often(g.r, 40)})
		s.who = append(s.who, who)
		if !g.oneSubject {
			who = g.r.IntN(g.cast)
		}
	}
	g.dropTwice(&s)
	if g.rule != nil {
		return g.around(s)
	}
	return s
}

// seen receives the answer to the step.
func (g *generator) seen(s *step, a *answer) {
	if len(a.outcome.Decisions) > 0 {
		g.found = &a.outcome
	}
	if g.rule != nil {
		g.learn(s, a)
	}
}

// charges returns some of the meters, in any order, without repetition.
func (g *generator) charges() []algorithm.Charge {
	n := 1
	if often(g.r, 40) {
		n = 1 + g.r.IntN(len(g.meters))
	}
	return g.pickCharges(n)
}

func (g *generator) pickCharges(n int) []algorithm.Charge {
	var charges []algorithm.Charge
	used := map[uint64]bool{}
	for _, i := range g.r.Perm(len(g.meters))[:n] {
		m := g.meters[i]
		if !used[m.Fingerprint] {
			used[m.Fingerprint] = true
			charges = append(charges, algorithm.Charge{Meter: m, Cost: g.cost(m)})
		}
	}
	return charges
}

// dropTwice drops groups that would charge the same state as an earlier group decided together with them.
func (g *generator) dropTwice(s *step) {
	standIns := make([]storage.Subject, g.cast)
	for i := range standIns {
		standIns[i][0] = byte(i)
	}
	for len(s.who) > 1 && s.on(standIns).Validate() != nil {
		last := len(s.who) - 1
		s.ticket.Groups, s.who = s.ticket.Groups[:last], s.who[:last]
	}
}

func (g *generator) cost(m *algorithm.Meter) int64 {
	switch g.r.IntN(20) {
	case 0:
		return 0
	case 1:
		return min(m.Capacity+1, algorithm.MaxCount)
	case 2:
		return min(m.Capacity, algorithm.MaxCount)
	case 3:
		return pick(g.r, algorithm.MaxCount, g.r.Int64N(algorithm.MaxCount))
	case 4, 5, 6:
		return min(upTo(g.r, m.Capacity), algorithm.MaxCount)
	case 7, 8: // exactly what is left, or one more
		if g.found != nil && len(g.found.Decisions) > 0 {
			return min(pick(g.r, g.found.Decisions...).Remaining+g.r.Int64N(2), algorithm.MaxCount)
		}
	}
	return 1
}

func (g *generator) nonce() uint64 {
	if often(g.r, 15) {
		return pick(g.r, g.nonces...)
	}
	return g.r.Uint64() | 1
}

func (g *generator) maxDelay() time.Duration {
	switch g.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(g.r.Int64N(int64(pick(g.r, windows...)))) // rarely whole microseconds
	}
	return algorithm.AnyDelay
}
