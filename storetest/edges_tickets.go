package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// checkInvalid sends tickets that no store could decide. Each also holds a sound charge, which
// must not be taken.
func checkInvalid(nodes []penstock.Store) error {
	sound := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: time.Hour}.MustCompile()
	other := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: time.Hour, Ordinal: 1}.MustCompile()
	leases := penstock.Limit{Algorithm: penstock.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	leaky := penstock.Limit{Algorithm: penstock.LeakyBucket, Count: 5, Window: time.Hour}.MustCompile()
	long := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: penstock.MaxReservedLog + 1, Window: time.Hour}.MustCompile()
	reserve := func(d time.Duration) func(t *penstock.Ticket) {
		return func(t *penstock.Ticket) { t.Groups[0].Reserve = d }
	}

	type charges = []penstock.Charge
	with := func(bad ...penstock.Charge) []charges {
		return []charges{append(charges{{Meter: sound, Cost: 1}}, bad...)}
	}
	many := func(n int) (groups []charges) {
		for i := range n {
			l := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: time.Duration(i+1) * time.Hour}
			groups = append(groups, charges{{Meter: l.MustCompile(), Cost: 1}})
		}
		return groups
	}
	flat := func(groups []charges) (all charges) {
		for _, g := range groups {
			all = append(all, g...)
		}
		return all
	}
	invalid := []struct {
		name   string
		groups []charges
		spoil  func(t *penstock.Ticket)
	}{
		{name: "no groups"},
		{name: "a group without charges", groups: []charges{{{Meter: sound, Cost: 1}}, {}}},
		{name: "no meter", groups: with(penstock.Charge{Cost: 1})},
		{name: "cost -1", groups: with(penstock.Charge{Meter: other, Cost: -1})},
		{name: "the most negative cost", groups: with(penstock.Charge{Meter: other, Cost: -1 << 63})},
		{name: "cost above the most", groups: with(penstock.Charge{Meter: other, Cost: penstock.MaxCount + 1})},
		{name: "cost 2^53-1", groups: with(penstock.Charge{Meter: other, Cost: 1<<53 - 1})},
		{name: "cost 2^53+1", groups: with(penstock.Charge{Meter: other, Cost: 1<<53 + 1})},
		{name: "the largest cost", groups: with(penstock.Charge{Meter: other, Cost: 1<<63 - 1})},
		{name: "65 groups", groups: many(penstock.MaxGroups + 1)},
		{name: "17 charges", groups: []charges{flat(many(penstock.MaxCharges + 1))}},
		{name: "the same limit twice", groups: with(penstock.Charge{Meter: sound, Cost: 1})},
		{name: "the same state in two groups", groups: []charges{{{Meter: sound, Cost: 1}}, {{Meter: sound, Cost: 1}}}},
		{name: "a lease without a nonce", groups: with(penstock.Charge{Meter: leases, Cost: 1}), spoil: func(t *penstock.Ticket) { t.Nonce = 0 }},
		{name: "an instant before the epoch", groups: with(), spoil: func(t *penstock.Ticket) { t.Now = -1 }},
		{name: "an instant after the last", groups: with(), spoil: func(t *penstock.Ticket) { t.Now = penstock.MaxInstant + 1 }},
		{name: "a reservation without a nonce", groups: with(), spoil: func(t *penstock.Ticket) { t.Nonce, t.Groups[0].Reserve = 0, time.Hour }},
		{name: "a reservation of no length", groups: with(), spoil: reserve(1)},
		{name: "a reservation of negative length", groups: with(), spoil: reserve(-time.Hour)},
		{name: "a reservation of more than a day", groups: with(), spoil: reserve(penstock.MaxReserve + 1)},
		{name: "a leaky bucket reserved", groups: with(penstock.Charge{Meter: leaky, Cost: 1}), spoil: reserve(time.Hour)},
		{name: "a long log reserved", groups: with(penstock.Charge{Meter: long, Cost: 1}), spoil: reserve(time.Hour)},
		{name: "a leaky bucket overdrawn", groups: with(penstock.Charge{Meter: leaky, Cost: 1, Overdraw: true})},
		{name: "leases overdrawn", groups: with(penstock.Charge{Meter: leases, Cost: 1, Overdraw: true})},
		{name: "an overdraft of cost -1", groups: with(penstock.Charge{Meter: other, Cost: -1, Overdraw: true})},
		{name: "two guards of one subject", groups: []charges{{{Meter: sound, Cost: 1}}, {{Meter: other, Cost: 1}}}, spoil: func(t *penstock.Ticket) {
			t.Groups[0].Reserve, t.Groups[1].Reserve = time.Hour, time.Hour
		}},
		{name: "a negative delay", groups: with(), spoil: func(t *penstock.Ticket) { t.MaxDelay = -1 }},
	}
	var errs []error
	for _, v := range invalid {
		who := newcomer()
		t := &penstock.Ticket{Now: scenarioStart, Nonce: 1}
		for _, c := range v.groups {
			t.Groups = append(t.Groups, penstock.Group{Subject: who, Charges: c})
		}
		if v.spoil != nil {
			v.spoil(t)
		}
		if err := takeInvalid(nodes[0], t); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		} else if err := untouched(nodes, who, sound); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(errs...)
}

func takeInvalid(node penstock.Store, t *penstock.Ticket) error {
	err := safely(func() error { return node.Take(context.Background(), t, new(penstock.Outcome)) })
	if !errors.Is(err, penstock.ErrInvalid) {
		return fmt.Errorf("error is %v, want one that wraps %q", err, penstock.ErrInvalid)
	}
	return nil
}

// checkLargest sends as many groups with as many charges as a ticket may hold.
func checkLargest(nodes []penstock.Store) error {
	model, cast := NewModel(), newcomers(1)
	s := step{ticket: penstock.Ticket{Now: scenarioStart, Nonce: 1, MaxDelay: penstock.AnyDelay}}
	algorithms := []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowCounter, penstock.TokenBucket, penstock.LeakyBucket, penstock.SlidingWindowLog, penstock.Concurrency}
	for i := range penstock.MaxGroups {
		g := penstock.Group{Alone: i%7 == 3}
		for j := range penstock.MaxCharges {
			n := i*penstock.MaxCharges + j
			l := penstock.Limit{Algorithm: algorithms[n%len(algorithms)], Count: int64(4 + n%5), Window: time.Duration(n+1) * time.Second}
			g.Charges = append(g.Charges, penstock.Charge{Meter: l.MustCompile(), Cost: 1})
		}
		s.ticket.Groups = append(s.ticket.Groups, g)
		s.who = append(s.who, 0)
	}
	for i := range 6 { // the fifth and sixth are denied by some
		s.ticket.Nonce++
		want, got, err := both(model, nodes, cast, &s)
		if err != nil {
			return fmt.Errorf("%d groups of %d charges: %w", penstock.MaxGroups, penstock.MaxCharges, err)
		}
		if diff := difference(want, got); diff != "" {
			return fmt.Errorf("%d groups of %d charges, call %d (-model +store):\n%s", penstock.MaxGroups, penstock.MaxCharges, i+1, diff)
		}
	}
	return nil
}

// checkExtremes decides at the ends of the time that can be told.
func checkExtremes(nodes []penstock.Store) error {
	return forEachKind(func(m *penstock.Meter) error {
		model, cast := NewModel(), newcomers(1)
		for i, now := range []penstock.Instant{1, 1, 2, penstock.MaxInstant, penstock.MaxInstant, penstock.MaxInstant, penstock.MaxInstant - 1, penstock.MaxInstant, 1, 1} {
			s := one(now, m, 1, penstock.AnyDelay, uint64(i+1))
			want, got, err := both(model, nodes, cast, &s)
			if err != nil {
				return err
			}
			if diff := difference(want, got); diff != "" {
				return fmt.Errorf("step %d, at %d (-model +store):\n%s", i, now, diff)
			}
		}
		return nil
	})
}
