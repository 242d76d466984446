package storetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A rule is the guards that a generator adds to the charges, and what it remembers to use again.
type rule struct {
	penalty *algorithm.Penalty
	dedup   *algorithm.Dedup
	reserve time.Duration
	calls   []storage.CallID // few, so that duplicates are common
	plain   bool             // requests only: nothing is settled, banned or reset

	named   []takenNonce        // what can be settled or released, the newest last
	moments []algorithm.Instant // at which answers change, the newest last
	settled *step               // the last settlement
	charged *step               // the last late charge
	called  algorithm.Instant   // when the last request was made
}

// takenNonce is what was taken under a nonce.
type takenNonce struct {
	who     int
	nonce   uint64
	charges []algorithm.Charge
}

// guard adds guards to the charges from now on.
func (g *generator) guard(plain bool) {
	g.rule = &rule{plain: plain}
	if often(g.r, 20) && !g.calm {
		g.meters = append(g.meters, anyMeter(g.r, algorithm.KindLeases))
	}
	for len(g.meters) < 3 && !g.calm { // for groups of one subject with their own limits
		g.meters = append(g.meters, anyMeter(g.r, pick(g.r, kinds...)))
	}
	for i := range g.meters {
		g.meters[i] = indebted(g.r, g.meters[i])
	}
	for i := range 1 + g.r.IntN(4) {
		g.rule.calls = append(g.rule.calls, hasher.Call(string(rune('a'+i))))
	}
	g.changeRule()
}

// indebted gives some limits an overdraft.
func indebted(r *rand.Rand, m *algorithm.Meter) *algorithm.Meter {
	l := m.Limit()
	l.Overdraft = pick(r, 0, 1+r.Int64N(10), anyCount(r))
	if in, err := l.Compile(); err == nil {
		return in
	}
	return m
}

// overdrawn is sometimes true where an overdraft is allowed.
func overdrawn(r *rand.Rand, m *algorithm.Meter) bool {
	return often(r, 20) && m.Kind != algorithm.KindLeaky && m.Kind != algorithm.KindLeases
}

// changeRule gives the rule other terms. Existing counts are kept.
func (g *generator) changeRule() {
	g.rule.penalty = g.anyPenalty()
	g.rule.dedup = g.anyDedup()
	g.rule.reserve = min(pick(g.r, g.span(), storage.MaxReserve), storage.MaxReserve)
}

// span returns a length that matters in addition to the windows of the limits.
func (g *generator) span() time.Duration {
	if often(g.r, 30) {
		return pick(g.r, windows...)
	}
	window := pick(g.r, g.meters...).Window * (1 + g.r.Int64N(3)) / (1 + g.r.Int64N(3))
	return min(max(time.Duration(window)*time.Microsecond, algorithm.MinWindow), algorithm.MaxWindow)
}

func (g *generator) anyPenalty() *algorithm.Penalty {
	terms := algorithm.PenaltyTerms{After: 1 + g.r.Int64N(4), Within: g.span(), ForgiveAfter: g.span()}
	for range 1 + g.r.IntN(4) {
		terms.Bans = append(terms.Bans, g.span())
	}
	slices.Sort(terms.Bans)
	return must(terms.Compile())
}

func (g *generator) anyDedup() *algorithm.Dedup {
	terms := algorithm.DedupTerms{TTL: min(g.span(), algorithm.MaxDedupTTL), MaxReplays: pick[int64](g.r, 1, 1, 2, 3, algorithm.MaxReplays), Budget: g.r.Int64N(6)}
	terms.Beside = anyMeter(g.r, pick(g.r, kinds...)).Limit()
	if often(g.r, 70) { // mostly a length that matters
		terms.Beside = pick(g.r, g.meters...).Limit()
	}
	return must(terms.Compile())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the generator makes only valid terms
	}
	return v
}

// around returns the step with guards, or another step in its place.
func (g *generator) around(s step) step {
	if often(g.r, 2) {
		g.changeRule()
	}
	if often(g.r, 2) {
		i := g.r.IntN(len(g.meters))
		g.meters[i] = indebted(g.r, g.meters[i])
	}
	if g.rule.plain {
		g.guardGroups(&s)
		return s
	}
	switch n := g.r.IntN(100); {
	case n < 25:
		if settle, ok := g.settlement(); ok {
			return settle
		}
	case n < 28: // for one of the rule's lengths or any other, or lifted
		s.ban = &storage.Ban{Now: g.now, Penalty: g.rule.penalty, Length: pick(g.r, 0, g.span(), pick(g.r, g.rule.penalty.Terms().Bans...))}
		s.who = s.who[:1]
		return s
	case n < 34:
		if late, ok := g.late(); ok {
			return late
		}
	case n < 36:
		if refund, ok := g.refund(); ok {
			return refund
		}
	case n < 37:
		s.reset = &storage.Group{Charges: g.pickCharges(g.r.IntN(len(g.meters) + 1))}
		if often(g.r, 50) { // the ban is also forgotten without a penalty
			s.reset.Penalty = g.rule.penalty
		}
		if often(g.r, 80) {
			s.reset.Dedup = g.rule.dedup
		}
		s.who = s.who[:1]
		return s
	}
	g.guardGroups(&s)
	return s
}

func (g *generator) guardGroups(s *step) {
	for i := range s.ticket.Groups {
		group := &s.ticket.Groups[i]
		if i > 0 && (often(g.r, 30) || slices.Contains(s.who[:i], s.who[i]) && often(g.r, 95)) {
			continue // a subject may be guarded only once
		}
		if often(g.r, 70) {
			group.Penalty = g.rule.penalty
		}
		if often(g.r, 60) {
			group.Dedup = g.rule.dedup
			if often(g.r, 85) {
				group.Call = pick(g.r, g.rule.calls...)
			}
		}
		returns := true
		for j := range group.Charges {
			c := &group.Charges[j]
			returns = returns && c.Meter.Returns() == nil
			c.Overdraw = overdrawn(g.r, c.Meter)
		}
		if returns && often(g.r, 60) {
			group.Reserve = g.rule.reserve
		}
	}
	g.dropTwice(s)
}

// settlement returns a settlement of something that was or was not taken, or false if nothing can be
// settled.
func (g *generator) settlement() (step, bool) {
	if g.rule.called != 0 && often(g.r, 50) {
		g.now = min(max(g.rule.called+g.wobble(), g.from), latest) // while it is still open
	}
	if again := g.rule.settled; again != nil && often(g.r, 25) { // the same again, or nearly
		s := settlement(*again.settle)
		s.Now = g.now
		if often(g.r, 30) {
			s.Verb = storage.Verb(g.r.IntN(3))
		}
		s.Strike = g.strike(s.Verb)
		if often(g.r, 20) {
			s.Charges[0].Cost = g.cost(s.Charges[0].Meter)
		}
		return step{settle: &s, who: again.who, node: g.r.IntN(g.nodes)}, true
	}
	taken := takenNonce{g.r.IntN(g.cast), pick(g.r, g.nonces...), g.charges()}
	if n := len(g.rule.named); n > 0 && often(g.r, 90) {
		taken = g.rule.named[max(0, n-1-g.r.IntN(6))]
	}
	if often(g.r, 3) {
		taken.who = g.r.IntN(g.cast)
	}
	if often(g.r, 5) { // as if it were another group's
		taken.charges = g.charges()
	}
	s := storage.Settlement{
		Now: g.now, Nonce: taken.nonce, Verb: pick(g.r, storage.Settle, storage.Settle, storage.Release, storage.Renew),
		Overage: pick(g.r, algorithm.OverageDeny, algorithm.OverageDeny, algorithm.OverageAllow, algorithm.OverageDebt), TTL: min(g.span(), storage.MaxReserve),
	}
	s.Strike = g.strike(s.Verb)
	for _, c := range taken.charges {
		c.Meter = g.current(c.Meter)
		if c.Meter.Returns() == nil {
			c.Cost, c.Overdraw = g.trueCost(c), false
			s.Charges = append(s.Charges, c)
		}
	}
	return step{settle: &s, who: []int{taken.who}, node: g.r.IntN(g.nodes)}, len(s.Charges) > 0
}

// strike returns the penalty under which a settlement is a strike, or nil.
func (g *generator) strike(v storage.Verb) *algorithm.Penalty {
	if v == storage.Settle && often(g.r, 50) {
		return g.rule.penalty
	}
	return nil
}

// refund returns a refund of counters that may or may not exist, or false if none of them can be refunded.
func (g *generator) refund() (step, bool) {
	s := storage.Settlement{Now: g.now, Verb: storage.Refund}
	for _, c := range g.charges() {
		if c.Meter.Returns() == nil && c.Meter.CanRefund() {
			c.Cost, c.Overdraw = g.cost(c.Meter), false
			s.Charges = append(s.Charges, c)
		}
	}
	return step{settle: &s, who: []int{g.r.IntN(g.cast)}, node: g.r.IntN(g.nodes)}, len(s.Charges) > 0
}

// settlement returns a copy whose charges may be changed.
func settlement(s storage.Settlement) storage.Settlement {
	s.Charges = slices.Clone(s.Charges)
	return s
}

// current returns the meter in its current form.
func (g *generator) current(m *algorithm.Meter) *algorithm.Meter {
	for _, other := range g.meters {
		if other.Fingerprint == m.Fingerprint {
			return other
		}
	}
	return m
}

// trueCost returns a cost near the estimate, or any other.
func (g *generator) trueCost(c algorithm.Charge) int64 {
	switch g.r.IntN(6) {
	case 0:
		return c.Cost
	case 1:
		return upTo(g.r, c.Cost)
	case 2, 3:
		return min(c.Cost+g.r.Int64N(8), algorithm.MaxCount)
	case 4: // up to the last one left, or one more
		if g.found != nil && len(g.found.Decisions) > 0 {
			return min(c.Cost+pick(g.r, g.found.Decisions...).Remaining+g.r.Int64N(2), algorithm.MaxCount)
		}
	}
	return g.cost(c.Meter)
}

// learn remembers what later steps may use again.
func (g *generator) learn(s *step, a *answer) {
	r := g.rule
	switch {
	case s.settle != nil && s.settle.Verb == storage.Refund:
	case s.settle != nil:
		r.settled = s
		g.moment(a.settled.Until)
		g.moment(a.settled.BannedUntil)
	case s.ban != nil:
		g.moment(a.until)
	case s.reset != nil:
	case s.late != nil:
		r.charged = s
	default:
		r.called = s.ticket.Now
		for i := range s.ticket.Groups {
			group, out := &s.ticket.Groups[i], &a.outcome.Groups[i]
			if out.Nonce != 0 {
				r.named = append(r.named, takenNonce{s.who[i], out.Nonce, takenBy(group, out)})
			}
			if group.Reserve != 0 && out.Taken {
				g.moment(g.now.Add(group.Reserve))
				g.moment(g.now + algorithm.Instant(group.Charges[0].Meter.Window)) // the end of a permit or window
			}
			if group.Dedup != nil && out.Taken && !out.Replay {
				g.moment(g.now + algorithm.Instant(group.Dedup.TTL))
			}
			if group.Penalty != nil && out.Strikes > 0 {
				g.moment(g.now + algorithm.Instant(pick(g.r, group.Penalty.Within, group.Penalty.Forgive)))
			}
			if out.BannedUntil != 0 {
				g.moment(out.BannedUntil + algorithm.Instant(pick(g.r, 0, group.Penalty.Forgive)))
			}
		}
	}
}

// takenBy returns what can be settled or released; for a duplicate, only its own permits.
func takenBy(g *storage.Group, out *storage.GroupOutcome) []algorithm.Charge {
	if !out.Replay {
		return g.Charges
	}
	return slices.DeleteFunc(slices.Clone(g.Charges), func(c algorithm.Charge) bool { return !c.TakesPermit() })
}

func (g *generator) moment(at algorithm.Instant) {
	if at != 0 {
		g.rule.moments = append(g.rule.moments, at)
	}
}

// recent returns one of the last moments.
func (g *generator) recent() algorithm.Instant {
	n := len(g.rule.moments)
	if n == 0 {
		return g.now
	}
	return g.rule.moments[max(0, n-1-g.r.IntN(8))]
}
