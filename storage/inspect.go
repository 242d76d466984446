package storage

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
)

// An Inspection is what a store knows of one subject of a rule.
type Inspection struct {
	Subject   Subject
	Group     GroupOutcome         // ban, strikes, and whether a request would pass now
	Decisions []algorithm.Decision // one for each limit of the rule

	Reservations []Reservation // the first few
	Reserved     int64         // how many there are in total
}

// Inspect reads the state of the subjects of several rules at once, one for each group: counters, strikes,
// bans and up to a maximum number of reservations each. It writes nothing, even if the groups have costs.
func Inspect(ctx context.Context, store interface {
	Store
	Inspector
}, now algorithm.Instant, groups []Group, reservations int) ([]Inspection, error) {
	t := Ticket{Now: now, Groups: make([]Group, len(groups))}
	for i, g := range groups {
		peek := Group{Subject: g.Subject, Penalty: g.Penalty, Alone: true, Charges: make([]algorithm.Charge, len(g.Charges))}
		for j, c := range g.Charges {
			peek.Charges[j] = algorithm.Charge{Meter: c.Meter}
		}
		t.Groups[i] = peek
	}
	var out Outcome
	if err := store.Take(ctx, &t, &out); err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	seen := make([]Inspection, len(groups))
	decisions := out.Decisions
	for i := range t.Groups {
		n := len(t.Groups[i].Charges)
		seen[i] = Inspection{Subject: t.Groups[i].Subject, Group: out.Groups[i], Decisions: decisions[:n:n]}
		decisions = decisions[n:]
		var err error
		seen[i].Reservations, seen[i].Reserved, err = store.Reservations(ctx, out.Now, t.Groups[i].Subject, reservations)
		if err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
	}
	return seen, nil
}
