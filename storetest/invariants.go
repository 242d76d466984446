package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Invariants checks on random traces what each algorithm promises, with its own arithmetic and not with the
// algorithm's formulas: bounds on what passes, no denial without cause, and how decisions after the same
// history relate to each other.
func (s Suite) Invariants(t *testing.T) {
	racetest.Skip(t, sameAsTwin)
	nodes := s.open(t, fleet)
	n := size(20, 100, 20_000)
	for _, b := range bounds {
		t.Run(b.name, func(t *testing.T) {
			s.seeded(t, func(seed uint64) error { return b.hold(nodes, seed, n) })
		})
	}
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			s.seeded(t, func(seed uint64) error { return law.hold(nodes, seed, n) })
		})
	}
}

// A call is a step of a trace and its result.
type call struct {
	at    algorithm.Instant
	cost  int64
	nonce uint64
	algorithm.Decision
}

// A bound is what an algorithm promises about any trace of one meter in which time moves forward.
type bound struct {
	name   string
	kind   algorithm.Kind
	broken func(m *algorithm.Meter, calls []call) error
}

func (b bound) hold(nodes []storage.Store, seed uint64, n int) error {
	return trials(n, workers, func(trial int) error {
		r := random(seed, trial)
		steps := forward(r, smallMeter(r, b.kind), 20+r.IntN(150))
		_, outs, err := replay(nodes, steps)
		if err != nil {
			return err
		}
		m := steps[0].ticket.Groups[0].Charges[0].Meter
		if err := b.broken(m, callsOf(steps, outs)); err == nil {
			return nil
		}
		fails := func(steps []step) error {
			_, outs, err := replay(nodes, steps)
			if err != nil {
				return err
			}
			return b.broken(m, callsOf(steps, outs))
		}
		short := minimise(steps, func(steps []step) bool { return fails(steps) != nil })
		return fmt.Errorf("trace %d: %v: %w, after:\n%s", trial, m, fails(short), describe(short, 0))
	})
}

func callsOf(steps []step, outs []storage.Outcome) []call {
	calls := make([]call, len(steps))
	for i, s := range steps {
		calls[i] = call{s.ticket.Now, s.ticket.Groups[0].Charges[0].Cost, s.ticket.Nonce, outs[i].Decisions[0]}
	}
	return calls
}

// smallMeter returns a meter that a trace of some dozen requests exhausts several times.
func smallMeter(r *rand.Rand, kind algorithm.Kind) *algorithm.Meter {
	for {
		m := anyMeter(r, kind)
		l := m.Limit()
		if l.CountDenied || m.Count < 1 || m.Count > 300 || m.Capacity > 300 {
			continue
		}
		if l.Period == algorithm.Hour || l.Location == location("America/St_Johns") {
			continue // an hour or a day that occurs twice has no unique name to check by
		}
		return m
	}
}

// forward returns a trace of single charges in which time never goes back.
func forward(r *rand.Rand, m *algorithm.Meter, n int) []step {
	now := algorithm.InstantOf(pick(r, turns...))
	var steps []step
	for len(steps) < n && now < latest {
		switch r.IntN(10) {
		case 0, 1, 2, 3:
		case 4:
			now++
		case 5: // the next edge of a window, a tick or a day
			edge := algorithm.Instant(pick(r, m.Window, m.Tick, int64(day)))
			now += edge - now%edge + algorithm.Instant(r.IntN(2))
		case 6:
			now += algorithm.Instant(m.Window) + algorithm.Instant(r.IntN(3)-1)
		default:
			now += algorithm.Instant(r.Int64N(3*m.Window/max(1, m.Count) + 1))
		}
		cost := int64(1)
		if often(r, 30) {
			cost = 1 + r.Int64N(m.Capacity+1)
		}
		steps = append(steps, singleCharge(now, m, cost, algorithm.AnyDelay, r.Uint64()|1))
	}
	return steps
}
