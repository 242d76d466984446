package storetest

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// An amountChange is what a limit gained or lost at an instant.
type amountChange struct {
	at     algorithm.Instant
	amount int64
}

// openReservation is a reservation that a trace may still settle.
type openReservation struct {
	nonce uint64
	cost  int64
	at    algorithm.Instant
}

// settlesWithin reserves and settles at random and keeps a list of charges and refunds. According to that
// list no limit is ever exceeded, and no request is denied without cause where the algorithm is exact.
func settlesWithin(t *liveTrace) error {
	m := returning(t.r)
	var flows []amountChange
	var opened []openReservation
	for range 60 {
		t.wait(time.Duration(m.Window/max(1, m.Count)) * time.Microsecond)
		if often(t.r, 5) {
			t.wait(time.Duration(m.Window) * time.Microsecond)
		}
		if t.now > latest {
			return nil
		}
		d, err := t.reserveOrSettle(m, &opened, &flows)
		if err != nil {
			return err
		}
		if d.Used < 0 || d.Remaining > m.Capacity || d.Used+d.Remaining < m.Capacity {
			return fmt.Errorf("%v: used %d, remaining %d of %d", m, d.Used, d.Remaining, m.Capacity)
		}
		if err := exceeded(m, flows, t.now); err != nil {
			return fmt.Errorf("%v: %w", m, err)
		}
		if want, exact := heldAt(m, flows, t.now); exact && d.Used != want {
			return fmt.Errorf("%v: used %d, want %d", m, d.Used, want)
		}
	}
	return nil
}

func (t *liveTrace) reserveOrSettle(m *algorithm.Meter, opened *[]openReservation, flows *[]amountChange) (d algorithm.Decision, err error) {
	if len(*opened) == 0 || often(t.r, 50) {
		o := openReservation{t.r.Uint64() | 1, 1 + t.r.Int64N(m.Capacity), t.now}
		s := singleGroup(t.now, o.nonce, group(m, o.cost))
		s.ticket.Groups[0].Reserve = storage.MaxReserve
		a, err := t.play(s)
		if err != nil || a.refusal != nil {
			return d, fmt.Errorf("reserve: %w, %w", err, a.refusal)
		}
		if a.outcome.Allowed {
			*opened = append(*opened, o)
			*flows = append(*flows, amountChange{t.now, o.cost})
		}
		return a.outcome.Decisions[0], nil
	}
	i := t.r.IntN(len(*opened))
	o := (*opened)[i]
	s := storage.Settlement{Now: t.now, Nonce: o.nonce, Verb: pick(t.r, storage.Settle, storage.Release), Charges: group(m, upTo(t.r, m.Capacity)).Charges}
	a, err := t.play(settlementOf(s))
	switch {
	case err != nil:
		return d, err
	case a.refusal == storage.ErrNoReservation && t.now >= o.at.Add(storage.MaxReserve):
		*opened = append((*opened)[:i], (*opened)[i+1:]...)
		return t.peek(m)
	case a.refusal != nil:
		return d, a.refusal
	}
	if a.settled.Allowed {
		*opened = append((*opened)[:i], (*opened)[i+1:]...)
		switch more := s.Cost(0) - o.cost; {
		case more > 0:
			*flows = append(*flows, amountChange{t.now, more})
		case counts(m, o.at, t.now):
			*flows = append(*flows, givenBack(m, o.at, t.now, more))
		}
	}
	return a.settled.Decisions[0], nil
}

// counts reports whether a charge at one instant can still be refunded at another.
func counts(m *algorithm.Meter, at, now algorithm.Instant) bool {
	switch m.Kind {
	case algorithm.KindWindow, algorithm.KindCalendar:
		return windowName(m, at) == windowName(m, now)
	case algorithm.KindInterval:
		return int64(at)/m.Window == int64(now)/m.Window
	case algorithm.KindCounter:
		return int64(now)/m.Window-int64(at)/m.Window <= 1
	}
	return at+algorithm.Instant(m.Window) > now
}

// givenBack returns the flow of a refund. It is dated at the time of the refund, except where the algorithm
// uses the date of the charge.
func givenBack(m *algorithm.Meter, at, now algorithm.Instant, amount int64) amountChange {
	if m.Kind == algorithm.KindLog || m.Kind == algorithm.KindCounter {
		return amountChange{at, amount}
	}
	return amountChange{now, amount}
}

// exceeded checks what ends now against what the algorithm promises.
func exceeded(m *algorithm.Meter, flows []amountChange, now algorithm.Instant) error {
	switch m.Kind {
	case algorithm.KindBucket, algorithm.KindInterval:
		var sum int64
		for i := len(flows) - 1; i >= 0; i-- {
			sum += flows[i].amount
			most, unit := m.Capacity*m.Ticks+m.Count*(int64(now)/m.Tick-int64(flows[i].at)/m.Tick), m.Ticks
			if m.Kind == algorithm.KindInterval {
				most, unit = m.Capacity+m.Count*(int64(now)/m.Window-int64(flows[i].at)/m.Window), 1
			}
			if sum*unit > most {
				return fmt.Errorf("charges less give-backs since %d are %d", flows[i].at, sum)
			}
		}
	case algorithm.KindCounter:
		var sum int64
		for _, f := range flows {
			if int64(f.at)/m.Window == int64(now)/m.Window {
				sum += f.amount
			}
		}
		if sum > m.Count {
			return fmt.Errorf("%d were charged in one window", sum)
		}
	default:
		if sum, _ := heldAt(m, flows, now); sum > m.Count {
			return fmt.Errorf("%d were charged in one window", sum)
		}
	}
	return nil
}

// heldAt returns what counts at an instant, where the algorithm is exact.
func heldAt(m *algorithm.Meter, flows []amountChange, now algorithm.Instant) (sum int64, exact bool) {
	for _, f := range flows {
		switch m.Kind {
		case algorithm.KindWindow, algorithm.KindCalendar:
			if windowName(m, f.at) == windowName(m, now) {
				sum += f.amount
			}
		case algorithm.KindLog:
			if f.at > now-algorithm.Instant(m.Window) {
				sum += f.amount
			}
		default:
			return 0, false
		}
	}
	return sum, true
}

// givenBackOnce: a settlement takes effect once, the same one again changes nothing, and any other is
// refused.
func givenBackOnce(t *liveTrace) error {
	m := returning(t.r)
	cost := 1 + t.r.Int64N(m.Capacity)
	g := group(m, cost)
	g.Reserve = time.Hour
	s := singleGroup(t.now, 7, g)
	if _, err := t.play(s); err != nil {
		return err
	}
	first := storage.Settlement{Now: t.now, Nonce: 7, Verb: pick(t.r, storage.Settle, storage.Release), Charges: group(m, t.r.Int64N(cost+1)).Charges}
	a, err := t.play(settlementOf(first))
	if err != nil || a.refusal != nil || !a.settled.Allowed || a.settled.Again {
		return fmt.Errorf("the first time: %+v, %w, %w", a.settled, a.refusal, err)
	}
	used := first.Cost(0)
	if got := a.settled.Decisions[0].Used; got != used {
		return fmt.Errorf("settled with %d, and %d are used", used, got)
	}
	for range 3 {
		again := settlement(first)
		again.Verb = pick(t.r, storage.Settle, storage.Release, storage.Renew)
		again.Charges[0].Cost = pick(t.r, first.Charges[0].Cost, t.r.Int64N(cost+1))
		again.TTL = time.Hour
		a, err := t.play(settlementOf(again))
		if err != nil {
			return err
		}
		same := again.Verb != storage.Renew && again.Cost(0) == used
		switch {
		case same && (a.refusal != nil || !a.settled.Again || !a.settled.Allowed):
			return fmt.Errorf("the same again: %+v, %v", a.settled, a.refusal)
		case !same && a.refusal != storage.ErrClosed:
			return fmt.Errorf("anything else: %+v, %v", a.settled, a.refusal)
		}
		if d, err := t.peek(m); err != nil || d.Used != used {
			return fmt.Errorf("then %d are used, want %d (%w)", d.Used, used, err)
		}
	}
	return nil
}

// settlementsStrikeOnce: strikes of settlements count towards a ban as denials do, each once, however often and
// with whatever costs it is sent again.
func settlementsStrikeOnce(t *liveTrace) error {
	m := perMinute(1000)
	after := 1 + t.r.Int64N(4)
	p := must(algorithm.PenaltyTerms{After: after, Within: time.Hour, Bans: []time.Duration{time.Minute}, ForgiveAfter: 24 * time.Hour}.Compile())
	guarded := func(cost int64) storage.Group {
		g := group(m, cost)
		g.Penalty, g.Reserve = p, time.Hour
		return g
	}
	strikes := int64(0)
	for nonce := uint64(1); strikes < after; nonce++ {
		if a, err := t.play(singleGroup(t.now, nonce, guarded(1))); err != nil || !a.outcome.Allowed {
			return fmt.Errorf("reserve: %+v, %w", a.outcome, err)
		}
		s := storage.Settlement{Now: t.now, Nonce: nonce, Charges: group(m, t.r.Int64N(2)).Charges}
		if often(t.r, 60) {
			s.Strike = p
			strikes++
		}
		var until algorithm.Instant
		if strikes == after {
			until = t.now.Add(time.Minute)
		}
		a, err := t.play(settlementOf(s))
		if err != nil || a.refusal != nil || a.settled.BannedUntil != until {
			return fmt.Errorf("strike %d of %d: %+v, %w, %w; want a ban until %d", strikes, after, a.settled, a.refusal, err, until)
		}
		for range t.r.IntN(3) {
			again := settlement(s)
			again.Strike, again.Charges[0].Cost = p, t.r.Int64N(2)
			a, err := t.play(settlementOf(again))
			if err != nil || a.refusal == nil && (!a.settled.Again || a.settled.BannedUntil != 0) {
				return fmt.Errorf("sent again: %+v, %w", a.settled, err)
			}
		}
		out, err := t.ask(guarded(0))
		if err != nil || out.Groups[0].Strikes != strikes%after || out.Groups[0].BannedUntil != until {
			return fmt.Errorf("after %d strikes of %d: %+v, %w", strikes, after, out.Groups[0], err)
		}
	}
	return nil
}

// overdraftEnds: a request passes if one is left, takes what there is room for, and no more.
func overdraftEnds(t *liveTrace) error {
	var m *algorithm.Meter
	for m == nil {
		l := smallMeter(t.r, pick(t.r, kinds...)).Limit()
		l.Overdraft = t.r.Int64N(20)
		m, _ = l.Compile()
	}
	if m.Kind == algorithm.KindLeaky || m.Kind == algorithm.KindLeases {
		return nil
	}
	for range 40 {
		t.wait(time.Duration(m.Window/max(1, m.Count)) * time.Microsecond)
		before, err := t.peek(m)
		if err != nil {
			return err
		}
		cost := 1 + t.r.Int64N(2*m.Capacity+m.Overdraft)
		g := group(m, cost)
		g.Charges[0].Overdraw = true
		out, err := t.ask(g)
		if err != nil {
			return err
		}
		if out.Allowed != (before.Remaining >= 1) {
			return fmt.Errorf("%v: with %d left pass is %v", m, before.Remaining, out.Allowed)
		}
		d := out.Decisions[0]
		if want := min(cost, m.Capacity+m.Overdraft-before.Used); out.Allowed && (d.Receipt.Cost != want || d.Used != before.Used+want) {
			return fmt.Errorf("%v: a cost of %d on top of %d took %d and left %d used, want %d", m, cost, before.Used, d.Receipt.Cost, d.Used, want)
		}
		if d.Used > m.Capacity+m.Overdraft {
			return fmt.Errorf("%v: %d used", m, d.Used)
		}
		if m.Kind == algorithm.KindWindow && often(t.r, 20) { // debt ends with its window
			t.now += algorithm.Instant(m.Window) - t.now%algorithm.Instant(m.Window)
			if d, err := t.peek(m); err != nil || d.Used != 0 {
				return fmt.Errorf("%v: in a new window %d are used (%w)", m, d.Used, err)
			}
		}
	}
	return nil
}
