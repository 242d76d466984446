package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// checkInvalid sends tickets that are invalid for every store. Each also holds a valid charge, which must
// not be taken.
func checkInvalid(nodes []storage.Store) error {
	sound := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: time.Hour}.MustCompile()
	other := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: time.Hour, Ordinal: 1}.MustCompile()
	leases := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	leaky := algorithm.Limit{Algorithm: algorithm.LeakyBucket, Count: 5, Window: time.Hour}.MustCompile()
	long := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: algorithm.MaxReservedLog + 1, Window: time.Hour}.MustCompile()
	reserve := func(d time.Duration) func(t *storage.Ticket) {
		return func(t *storage.Ticket) { t.Groups[0].Reserve = d }
	}

	type charges = []algorithm.Charge
	with := func(bad ...algorithm.Charge) []charges {
		return []charges{append(charges{{Meter: sound, Cost: 1}}, bad...)}
	}
	many := func(n int) (groups []charges) {
		for i := range n {
			l := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: time.Duration(i+1) * time.Hour}
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
		spoil  func(t *storage.Ticket)
	}{
		{name: "no groups"},
		{name: "a group without charges", groups: []charges{{{Meter: sound, Cost: 1}}, {}}},
		{name: "no meter", groups: with(algorithm.Charge{Cost: 1})},
		{name: "cost -1", groups: with(algorithm.Charge{Meter: other, Cost: -1})},
		{name: "the most negative cost", groups: with(algorithm.Charge{Meter: other, Cost: -1 << 63})},
		{name: "cost above the most", groups: with(algorithm.Charge{Meter: other, Cost: algorithm.MaxCount + 1})},
		{name: "cost 2^53-1", groups: with(algorithm.Charge{Meter: other, Cost: 1<<53 - 1})},
		{name: "cost 2^53+1", groups: with(algorithm.Charge{Meter: other, Cost: 1<<53 + 1})},
		{name: "the largest cost", groups: with(algorithm.Charge{Meter: other, Cost: 1<<63 - 1})},
		{name: "65 groups", groups: many(storage.MaxGroups + 1)},
		{name: "17 charges", groups: []charges{flat(many(storage.MaxCharges + 1))}},
		{name: "the same limit twice", groups: with(algorithm.Charge{Meter: sound, Cost: 1})},
		{name: "the same state in two groups", groups: []charges{{{Meter: sound, Cost: 1}}, {{Meter: sound, Cost: 1}}}},
		{name: "a lease without a nonce", groups: with(algorithm.Charge{Meter: leases, Cost: 1}), spoil: func(t *storage.Ticket) { t.Nonce = 0 }},
		{name: "an instant before the epoch", groups: with(), spoil: func(t *storage.Ticket) { t.Now = -1 }},
		{name: "an instant after the last", groups: with(), spoil: func(t *storage.Ticket) { t.Now = algorithm.MaxInstant + 1 }},
		{name: "a reservation without a nonce", groups: with(), spoil: func(t *storage.Ticket) { t.Nonce, t.Groups[0].Reserve = 0, time.Hour }},
		{name: "a reservation of no length", groups: with(), spoil: reserve(1)},
		{name: "a reservation of negative length", groups: with(), spoil: reserve(-time.Hour)},
		{name: "a reservation of more than a day", groups: with(), spoil: reserve(storage.MaxReserve + 1)},
		{name: "a leaky bucket reserved", groups: with(algorithm.Charge{Meter: leaky, Cost: 1}), spoil: reserve(time.Hour)},
		{name: "a long log reserved", groups: with(algorithm.Charge{Meter: long, Cost: 1}), spoil: reserve(time.Hour)},
		{name: "a leaky bucket overdrawn", groups: with(algorithm.Charge{Meter: leaky, Cost: 1, Overdraw: true})},
		{name: "leases overdrawn", groups: with(algorithm.Charge{Meter: leases, Cost: 1, Overdraw: true})},
		{name: "an overdraft of cost -1", groups: with(algorithm.Charge{Meter: other, Cost: -1, Overdraw: true})},
		{name: "two guards of one subject", groups: []charges{{{Meter: sound, Cost: 1}}, {{Meter: other, Cost: 1}}}, spoil: func(t *storage.Ticket) {
			t.Groups[0].Reserve, t.Groups[1].Reserve = time.Hour, time.Hour
		}},
		{name: "a negative delay", groups: with(), spoil: func(t *storage.Ticket) { t.MaxDelay = -1 }},
	}
	var errs []error
	for _, v := range invalid {
		who := newSubject()
		t := &storage.Ticket{Now: scenarioStart, Nonce: 1}
		for _, c := range v.groups {
			t.Groups = append(t.Groups, storage.Group{Subject: who, Charges: c})
		}
		if v.spoil != nil {
			v.spoil(t)
		}
		if err := takeInvalid(nodes[0], t); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		} else if err := checkUnused(nodes, who, sound); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.name, err))
		}
	}
	return errors.Join(errs...)
}

func takeInvalid(node storage.Store, t *storage.Ticket) error {
	err := safely(func() error { return node.Take(context.Background(), t, new(storage.Outcome)) })
	if !errors.Is(err, algorithm.ErrInvalid) {
		return fmt.Errorf("error is %v, want one that wraps %q", err, algorithm.ErrInvalid)
	}
	return nil
}

// checkLargest sends the largest number of groups and charges that a ticket may hold.
func checkLargest(nodes []storage.Store) error {
	model, cast := NewModel(), newSubjects(1)
	s := step{ticket: storage.Ticket{Now: scenarioStart, Nonce: 1, MaxDelay: algorithm.AnyDelay}}
	algorithms := []algorithm.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindowCounter, algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.SlidingWindowLog, algorithm.Concurrency}
	for i := range storage.MaxGroups {
		g := storage.Group{Alone: i%7 == 3}
		for j := range storage.MaxCharges {
			n := i*storage.MaxCharges + j
			l := algorithm.Limit{Algorithm: algorithms[n%len(algorithms)], Count: int64(4 + n%5), Window: time.Duration(n+1) * time.Second}
			g.Charges = append(g.Charges, algorithm.Charge{Meter: l.MustCompile(), Cost: 1})
		}
		s.ticket.Groups = append(s.ticket.Groups, g)
		s.who = append(s.who, 0)
	}
	for i := range 6 { // some limits deny the fifth and sixth
		s.ticket.Nonce++
		want, got, err := playBoth(model, nodes, cast, &s)
		if err != nil {
			return fmt.Errorf("%d groups of %d charges: %w", storage.MaxGroups, storage.MaxCharges, err)
		}
		if diff := difference(want, got); diff != "" {
			return fmt.Errorf("%d groups of %d charges, call %d (-model +store):\n%s", storage.MaxGroups, storage.MaxCharges, i+1, diff)
		}
	}
	return nil
}

// checkExtremes decides at both ends of the range of instants.
func checkExtremes(nodes []storage.Store) error {
	return forEachKind(func(m *algorithm.Meter) error {
		model, cast := NewModel(), newSubjects(1)
		for i, now := range []algorithm.Instant{1, 1, 2, algorithm.MaxInstant, algorithm.MaxInstant, algorithm.MaxInstant, algorithm.MaxInstant - 1, algorithm.MaxInstant, 1, 1} {
			s := singleCharge(now, m, 1, algorithm.AnyDelay, uint64(i+1))
			want, got, err := playBoth(model, nodes, cast, &s)
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
