package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Twin plays random traces on the store and on the [Model] and compares every field of every answer: all
// kinds, several limits and groups, peeks, impossible costs, limits that change, clocks that step back and
// forth, and instants a microsecond around every edge. Every other trace has guards around its charges, and
// settlements, bans and resets among its requests.
//
// PENSTOCK_TEST_TWIN_STEPS sets the number of steps; PENSTOCK_TEST_SEED repeats a run.
func (s Suite) Twin(t *testing.T) {
	const enough = 50_000 // to reach every case
	steps := numberFrom(t, "PENSTOCK_TEST_TWIN_STEPS", s.twinSteps(enough))
	nodes := s.open(t, fleet)
	s.seeded(t, func(seed uint64) error {
		reached, err := s.twin(nodes, seed, steps)
		if err != nil || steps < enough {
			return err
		}
		if err := reached.missing(s.Plain); err != nil {
			return fmt.Errorf("the traces did not reach every case:\n%w", err)
		}
		return nil
	})
}

// twinSteps returns how many steps Twin plays, unless the environment says otherwise.
func (s Suite) twinSteps(enough int) int {
	if s.TwinSteps > 0 {
		return s.TwinSteps
	}
	return size(enough/5, enough, 100_000_000)
}

func (s Suite) twin(nodes []storage.Store, seed uint64, steps int) (*tally, error) {
	var (
		played atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		total  tally
	)
	err := trials(steps, workers, func(trial int) error {
		if played.Load() >= int64(steps) || failed.Load() {
			return nil
		}
		g := newGenerator(random(seed, trial), len(nodes), s.OneSubject)
		if trial%2 == 1 {
			g.guard(s.Plain)
		}
		played.Add(int64(g.steps))
		reached, explain := playTwin(nodes, g)
		mu.Lock()
		total.merge(reached)
		mu.Unlock()
		if explain == nil || failed.Swap(true) { // explaining one is enough
			return nil
		}
		return fmt.Errorf("trace %d: %w", trial, explain())
	})
	return &total, err
}

// playTwin plays one trace of a generator on the store and on its own model. If they differ, it returns a
// function that explains the difference.
func playTwin(nodes []storage.Store, g *generator) (_ *tally, explain func() error) {
	model, reached := NewModel(), new(tally)
	model.ledger.tally = reached
	cast := newSubjects(g.cast)
	var played []step
	for range g.steps {
		s := g.next()
		played = append(played, s)
		want, got, err := playBoth(model, nodes, cast, &s)
		if err != nil {
			return reached, func() error { return err }
		}
		if !want.same(got) {
			return reached, func() error { return explainTwin(nodes, played, want, got) }
		}
		reached.answered(&s, got)
		g.seen(&s, got)
	}
	if g.rule == nil || g.rule.plain {
		return reached, nil
	}
	if diff := unlikeReservations(model, nodes, cast, g.now); diff != "" {
		return reached, func() error { return explainReservations(nodes, played, g.now, diff) }
	}
	return reached, nil
}

// playBoth plays a step on the model and on the store.
func playBoth(model *Model, nodes []storage.Store, cast []storage.Subject, s *step) (want, got *answer, err error) {
	w, err := play([]storage.Store{model}, cast, s)
	if err != nil {
		return nil, nil, fmt.Errorf("the trace is not sound: %w", err)
	}
	o, err := play(nodes, cast, s)
	return &w, &o, err
}

// explainTwin makes a difference readable: it returns the shortest trace it can find that still shows one.
func explainTwin(nodes []storage.Store, played []step, want, got *answer) error {
	lastFew := max(0, len(played)-5)
	text := fmt.Sprintf("step %d: store and model differ (-model +store):\n%s\nthe last steps:\n%s",
		len(played)-1, difference(want, got), describe(played[lastFew:], lastFew))
	return fmt.Errorf("%s%s", text, shortest(played, func(steps []step) string { return differs(nodes, steps) }))
}

// explainReservations does the same if all answers agreed but the reservations differ.
func explainReservations(nodes []storage.Store, played []step, now algorithm.Instant, diff string) error {
	text := fmt.Sprintf("after %d steps the reservations differ %s (-model +store):\n%s", len(played), describeTime(now), diff)
	return fmt.Errorf("%s%s", text, shortest(played, func(steps []step) string {
		model, cast := NewModel(), newSubjects(castOf(played))
		for i := range steps {
			if _, _, err := playBoth(model, nodes, cast, &steps[i]); err != nil {
				return err.Error()
			}
		}
		return unlikeReservations(model, nodes, cast, now)
	}))
}

func shortest(played []step, differs func([]step) string) string {
	short := minimise(played, func(steps []step) bool { return differs(steps) != "" })
	if diff := differs(short); diff != "" {
		return fmt.Sprintf("\nplayed again for new subjects, this is enough (steps: %d):\n%s\nand the end then differs (-model +store):\n%s",
			len(short), describe(short, 0), diff)
	}
	return "\nplayed again for new subjects, they agree: the store's answer depends on more than the trace"
}

// differs plays steps for new subjects and returns the first difference, or "".
func differs(nodes []storage.Store, steps []step) string {
	model, cast := NewModel(), newSubjects(castOf(steps))
	for i := range steps {
		want, got, err := playBoth(model, nodes, cast, &steps[i])
		if err != nil {
			return err.Error()
		}
		if diff := difference(want, got); diff != "" {
			return diff
		}
	}
	return ""
}

// unlikeReservations compares the reservations of each subject of the cast in the model and in the store.
func unlikeReservations(model *Model, nodes []storage.Store, cast []storage.Subject, now algorithm.Instant) string {
	const most = 1000 // more than a trace makes
	ctx := context.Background()
	for i, who := range cast {
		want, _, _ := model.Reservations(ctx, now, who, most)
		got, total, err := nodes[i%len(nodes)].(storage.Inspector).Reservations(ctx, now, who, most)
		if err != nil {
			return err.Error()
		}
		if total < int64(len(got)) {
			return fmt.Sprintf("of %d reservations, %d are told", total, len(got))
		}
		if diff := gocmp.Diff(canonical(want, now), canonical(got, now)); diff != "" {
			return fmt.Sprintf("subject %d: %s", i, diff)
		}
	}
	return ""
}
