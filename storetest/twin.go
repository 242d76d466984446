package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
)

// Twin plays random traces on the store and on the [Model] and compares every field of every
// outcome: all kinds, several limits and groups, peeks, impossible costs, limits that change,
// clocks that step back and forth, and instants a microsecond around every edge.
//
// PENSTOCK_TWIN_STEPS says how many steps; PENSTOCK_SEED repeats a run.
func (s Suite) Twin(t *testing.T) {
	const enough = 50_000 // to come upon everything
	steps := numberFrom(t, "PENSTOCK_TWIN_STEPS", size(enough, 1_000_000, 100_000_000))
	nodes := s.Open(t, fleet)
	seeded(t, func(seed uint64) error {
		reached, err := s.twin(nodes, seed, steps)
		if err != nil || steps < enough {
			return err
		}
		if err := reached.missing(); err != nil {
			return fmt.Errorf("the traces did not reach every case:\n%w", err)
		}
		return nil
	})
}

func (s Suite) twin(nodes []penstock.Store, seed uint64, steps int) (*tally, error) {
	var (
		played atomic.Int64
		mu     sync.Mutex
		total  tally
	)
	err := trials(steps, workers, func(trial int) error {
		if played.Load() >= int64(steps) {
			return nil
		}
		g := newGenerator(random(seed, trial), len(nodes), s.OneSubject)
		played.Add(int64(g.steps))
		reached, err := playTwin(nodes, g)
		mu.Lock()
		total.merge(reached)
		mu.Unlock()
		if err != nil {
			return fmt.Errorf("trace %d: %w", trial, err)
		}
		return nil
	})
	return &total, err
}

// playTwin plays one trace of a generator on the store and on a model of its own.
func playTwin(nodes []penstock.Store, g *generator) (*tally, error) {
	model := NewModel()
	model.ledger.tally = new(tally)
	cast := newcomers(g.cast)
	var played []step
	for range g.steps {
		s := g.next()
		played = append(played, s)
		want, got, err := both(model, nodes, cast, &s)
		if err != nil {
			return model.ledger.tally, err
		}
		if !sameOutcome(want, got) {
			return model.ledger.tally, explainTwin(nodes, played, want, got)
		}
		g.seen(&s, got)
	}
	return model.ledger.tally, nil
}

func both(model *Model, nodes []penstock.Store, cast []penstock.Subject, s *step) (want, got *penstock.Outcome, err error) {
	w, err := take([]penstock.Store{model}, cast, s)
	if err != nil {
		return nil, nil, fmt.Errorf("the trace is not sound: %w", err)
	}
	o, err := take(nodes, cast, s)
	return &w, &o, err
}

// explainTwin makes a difference readable: the shortest trace it can find that still shows one.
func explainTwin(nodes []penstock.Store, played []step, want, got *penstock.Outcome) error {
	lastFew := max(0, len(played)-5)
	text := fmt.Sprintf("step %d: store and model differ (-model +store):\n%s\nthe last steps:\n%s",
		len(played)-1, difference(want, got), describe(played[lastFew:], lastFew))
	short := minimise(played, func(steps []step) bool { return differs(nodes, steps) != "" })
	if diff := differs(nodes, short); diff != "" {
		text += fmt.Sprintf("\nplayed again for new subjects, this is enough (steps: %d):\n%s\nand the last then differs (-model +store):\n%s",
			len(short), describe(short, 0), diff)
	} else {
		text += "\nplayed again for new subjects, they agree: the store's answer depends on more than the trace"
	}
	return fmt.Errorf("%s", text)
}

// differs plays steps for newcomers and returns the first difference, or nothing.
func differs(nodes []penstock.Store, steps []step) string {
	model, cast := NewModel(), newcomers(castOf(steps))
	for i := range steps {
		want, got, err := both(model, nodes, cast, &steps[i])
		if err != nil {
			return err.Error()
		}
		if diff := difference(want, got); diff != "" {
			return diff
		}
	}
	return ""
}
