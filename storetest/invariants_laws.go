package storetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A historyLaw relates decisions after the same history, which is played again for each of them.
type historyLaw struct {
	name   string
	broken func(nodes []storage.Store, r *rand.Rand, m *algorithm.Meter, past []step, now algorithm.Instant) error
}

var laws = []historyLaw{
	{"raising a limit never denies more", raising},
	{"splitting a cost admits no more", splitting},
	{"others change nothing", isolation},
}

func (l historyLaw) hold(nodes []storage.Store, seed uint64, n int) error {
	return trials(n, workers, func(trial int) error {
		r := random(seed, trial)
		m := smallMeter(r, kinds[trial%len(kinds)])
		past := forward(r, m, 5+r.IntN(40))
		now := past[len(past)-1].ticket.Now + algorithm.Instant(r.Int64N(m.Window/max(1, m.Count)+1))
		if err := l.broken(nodes, r, m, past, now); err != nil {
			return fmt.Errorf("trace %d: %v: %w; after:\n%s", trial, m, err, describe(past, 0))
		}
		return nil
	})
}

func raising(nodes []storage.Store, r *rand.Rand, m *algorithm.Meter, past []step, now algorithm.Instant) error {
	higher := m.Limit()
	more := 1 + r.Int64N(5)
	switch {
	case m.Kind == algorithm.KindLeaky:
		higher.Queue += more
	case higher.Burst != 0:
		higher.Burst += more
	default:
		higher.Count += more
	}
	raised, err := higher.Compile()
	if err != nil {
		return nil // at the end of the range
	}
	cost := 1 + r.Int64N(m.Capacity)
	ask, askRaised := singleCharge(now, m, cost, algorithm.AnyDelay, 1), singleCharge(now, raised, cost, algorithm.AnyDelay, 1)
	before, err := playThen(nodes, past, &ask)
	if err != nil {
		return err
	}
	after, err := playThen(nodes, past, &askRaised)
	if err != nil {
		return err
	}
	if before.Allowed && !after.Allowed {
		return fmt.Errorf("%v passes, and is denied by %v", &ask, raised)
	}
	return nil
}

func splitting(nodes []storage.Store, r *rand.Rand, m *algorithm.Meter, past []step, now algorithm.Instant) error {
	if m.Kind == algorithm.KindLeases {
		return nil // takes one, whatever the cost
	}
	cost := 1 + r.Int64N(m.Capacity)
	whole := singleCharge(now, m, 2*cost, algorithm.AnyDelay, 1)
	half := singleCharge(now, m, cost, algorithm.AnyDelay, 1)
	atOnce, err := playThen(nodes, past, &whole)
	if err != nil {
		return err
	}
	cast, _, err := replay(nodes, past)
	if err != nil {
		return err
	}
	both := true
	for range 2 {
		out, err := take(nodes, cast, &half)
		if err != nil {
			return err
		}
		both = both && out.Allowed
	}
	if both != atOnce.Allowed {
		return fmt.Errorf("%v: pass is %v, but for two of half the cost %v", &whole, atOnce.Allowed, both)
	}
	return nil
}

// isolation plays the history among the traffic of others whose subjects differ in one bit.
func isolation(nodes []storage.Store, r *rand.Rand, _ *algorithm.Meter, past []step, _ algorithm.Instant) error {
	_, alone, err := replay(nodes, past)
	if err != nil {
		return err
	}
	cast := newSubjects(1)
	for i := range past {
		for range r.IntN(3) {
			other := cast[0]
			other[r.IntN(len(other))] ^= 1 << r.IntN(8)
			if _, err := take(nodes, []storage.Subject{other}, &past[i]); err != nil {
				return err
			}
		}
		got, err := take(nodes, cast, &past[i])
		if err != nil {
			return err
		}
		if diff := difference(&answer{outcome: alone[i]}, &answer{outcome: got}); diff != "" {
			return fmt.Errorf("step %d differs when others call (-alone +among others):\n%s", i, diff)
		}
	}
	return nil
}
