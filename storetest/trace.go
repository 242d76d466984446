package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A step of a trace is one request or one other operation. Its subjects are indexes into a cast, so that
// the same trace can be played again for subjects that the store has never seen.
type step struct {
	ticket storage.Ticket // its subjects are filled in by on
	who    []int          // one per group
	node   int

	// At most one of these is done instead of the ticket, for the first subject in who.
	settle *storage.Settlement
	ban    *storage.Ban
	reset  *storage.Group
	late   *storage.LateCharge
}

// on returns the step's ticket for a cast.
func (s *step) on(cast []storage.Subject) *storage.Ticket {
	t := s.ticket
	t.Groups = slices.Clone(t.Groups)
	for i := range t.Groups {
		t.Groups[i].Subject = cast[s.who[i]]
	}
	return &t
}

// singleCharge returns a step of a single charge for the first subject of the cast.
func singleCharge(now algorithm.Instant, m *algorithm.Meter, cost int64, maxDelay time.Duration, nonce uint64) step {
	s := singleGroup(now, nonce, storage.Group{Charges: []algorithm.Charge{{Meter: m, Cost: cost}}})
	s.ticket.MaxDelay = maxDelay
	return s
}

// singleGroup returns a step of a single group for the first subject of the cast.
func singleGroup(now algorithm.Instant, nonce uint64, g storage.Group) step {
	return step{ticket: storage.Ticket{Now: now, Nonce: nonce, Groups: []storage.Group{g}}, who: []int{0}}
}

// settlementOf returns a step that settles for the first subject of the cast.
func settlementOf(s storage.Settlement) step { return step{settle: &s, who: []int{0}} }

// banned returns a step that bans the first subject of the cast, or lifts the ban.
func banned(now algorithm.Instant, p *algorithm.Penalty, length time.Duration) step {
	return step{ban: &storage.Ban{Now: now, Penalty: p, Length: length}, who: []int{0}}
}

// play plays one step on its node.
func play(nodes []storage.Store, cast []storage.Subject, s *step) (a answer, err error) {
	ctx, node, who := context.Background(), nodes[s.node%len(nodes)], cast[s.who[0]]
	switch {
	case s.settle != nil:
		settlement := *s.settle
		settlement.Subject = who
		err = node.(storage.Settler).Settle(ctx, &settlement, &a.settled)
	case s.ban != nil:
		ban := *s.ban
		ban.Subject = who
		a.until, err = node.(storage.Banner).Ban(ctx, &ban)
	case s.reset != nil:
		group := *s.reset
		group.Subject = who
		err = node.(storage.Resetter).Reset(ctx, &group)
	case s.late != nil:
		late := *s.late
		late.Subject = who
		err = node.(storage.LateCharger).ChargeLate(ctx, &late)
	default:
		err = node.Take(ctx, s.on(cast), &a.outcome)
	}
	if a.refusal = refusalOf(err); err != nil && a.refusal == nil {
		return a, fmt.Errorf("%v: the store could not answer: %w", s, err)
	}
	if a.refusal != nil {
		a = answer{refusal: a.refusal} // the rest is undefined
	}
	return a, nil
}

// take plays a step that is a request.
func take(nodes []storage.Store, cast []storage.Subject, s *step) (storage.Outcome, error) {
	a, err := play(nodes, cast, s)
	if err == nil && a.refusal != nil {
		err = fmt.Errorf("%v: %w", s, a.refusal)
	}
	return a.outcome, err
}

// replay plays steps for new subjects and returns these subjects and the outcomes.
func replay(nodes []storage.Store, steps []step) ([]storage.Subject, []storage.Outcome, error) {
	cast := newSubjects(castOf(steps))
	outs := make([]storage.Outcome, len(steps))
	for i := range steps {
		a, err := play(nodes, cast, &steps[i])
		if err != nil {
			return nil, nil, err
		}
		outs[i] = a.outcome
	}
	return cast, outs, nil
}

func castOf(steps []step) int {
	n := 1
	for i := range steps {
		n = max(n, slices.Max(steps[i].who)+1)
	}
	return n
}

func describe(steps []step, first int) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "  %4d  %v\n", first+i, &steps[i])
	}
	return b.String()
}

func (s *step) String() string {
	switch {
	case s.settle != nil:
		return fmt.Sprintf("%s, subject %d: %s", describeTime(s.settle.Now), s.who[0], describeSettlement(s.settle))
	case s.ban != nil && s.ban.Length == 0:
		return fmt.Sprintf("%s, subject %d: ban lifted under [%s]", describeTime(s.ban.Now), s.who[0], describePenalty(s.ban.Penalty))
	case s.ban != nil:
		return fmt.Sprintf("%s, subject %d: banned for %v under [%s]", describeTime(s.ban.Now), s.who[0], s.ban.Length, describePenalty(s.ban.Penalty))
	case s.reset != nil:
		return fmt.Sprintf("subject %d: reset", s.who[0])
	case s.late != nil:
		return fmt.Sprintf("%s, subject %d: %s", describeTime(s.late.Now), s.who[0], describeLate(s.late))
	}
	return describeTicket(&s.ticket, func(i int) string { return fmt.Sprintf("subject %d", s.who[i]) })
}

func describeTime(now algorithm.Instant) string {
	return fmt.Sprintf("at %s (%d)", now.Time().Format("2006-01-02T15:04:05.000000Z"), now)
}

func describeTicket(t *storage.Ticket, who func(group int) string) string {
	var b strings.Builder
	b.WriteString(describeTime(t.Now))
	for i := range t.Groups {
		g := &t.Groups[i]
		fmt.Fprintf(&b, ", %s", who(i))
		if g.Alone {
			b.WriteString(" alone")
		}
		b.WriteString(describeCharges(g.Charges))
		if g.Penalty != nil {
			fmt.Fprintf(&b, " [%s]", describePenalty(g.Penalty))
		}
		if g.Dedup != nil {
			terms := g.Dedup.Terms()
			fmt.Fprintf(&b, " [call %.4x: ttl %v, replays %d, budget %v]", g.Call, terms.TTL, terms.MaxReplays, g.Dedup.Budget)
		}
		if g.Reserve != 0 {
			fmt.Fprintf(&b, " [reserved for %v]", g.Reserve)
		}
	}
	if t.MaxDelay == algorithm.AnyDelay {
		b.WriteString(", any delay")
	} else if t.MaxDelay != 0 {
		fmt.Fprintf(&b, ", delay up to %v", t.MaxDelay)
	}
	if t.Nonce != 0 {
		fmt.Fprintf(&b, ", nonce %d", t.Nonce)
	}
	if t.Denied {
		b.WriteString(", denied elsewhere")
	}
	return b.String()
}

func describeCharges(charges []algorithm.Charge) string {
	var b strings.Builder
	for _, c := range charges {
		fmt.Fprintf(&b, " [%v cost %d", c.Meter, c.Cost)
		if c.Overdraw {
			b.WriteString(" overdraws")
		}
		b.WriteByte(']')
	}
	return b.String()
}

func describePenalty(p *algorithm.Penalty) string {
	t := p.Terms()
	return fmt.Sprintf("penalty after %d within %v, bans %v, forgiven after %v", t.After, t.Within, t.Bans, t.ForgiveAfter)
}

func describeSettlement(s *storage.Settlement) string {
	text := fmt.Sprintf("%v nonce %d%s", s.Verb, s.Nonce, describeCharges(s.Charges))
	switch s.Verb {
	case storage.Settle:
		text += fmt.Sprintf(", overage %v", s.Overage)
		if s.Strike != nil {
			text += fmt.Sprintf(", a strike under [%s]", describePenalty(s.Strike))
		}
	case storage.Renew:
		text += fmt.Sprintf(", ttl %v", s.TTL)
	}
	return text
}
