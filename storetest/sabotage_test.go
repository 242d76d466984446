package storetest

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A suite that cannot fail proves nothing: every part runs against stores that are wrong in one way, and
// must report it.

func fleetOf(s storage.Store) []storage.Store { return []storage.Store{s, s, s} }

// The parts, in the sizes of a quick run, as functions that return the first fault they find.
var parts = map[string]func(nodes []storage.Store) error{
	"twin":     func(n []storage.Store) error { _, err := Suite{Plain: true}.twin(n, 1, 50_000); return err },
	"promise":  func(n []storage.Store) error { return promises(n, 1, 300) },
	"exactly":  everyRush,
	"fading":   func(n []storage.Store) error { return fadingRush(n, 500) },
	"linear":   manyHistories,
	"scenario": everyScenario,
	"bounds":   everyBound,
	"laws":     everyLaw,
	"expiry":   expiry,
}

func init() {
	for _, e := range edges {
		parts[e.name] = e.check
	}
}

func everyRush(nodes []storage.Store) error {
	for _, r := range rushes {
		if err := r.trials(nodes, 50); err != nil {
			return err
		}
	}
	return minuteRush(nodes, 50)
}

func manyHistories(nodes []storage.Store) error {
	return trials(100, 1, func(i int) error { return Suite{Plain: true}.linearizable(nodes, 1, i) })
}

func everyScenario(nodes []storage.Store) error {
	files, err := scenarioFiles.ReadDir("testdata")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := scenarioFiles.ReadFile("testdata/" + f.Name())
		if err != nil {
			return err
		}
		sc, err := parseScenario(f.Name(), string(text))
		if err != nil {
			return err
		}
		if _, able := nodes[0].(CompleteStore); sc.able() && !able {
			continue
		}
		if err := sc.play(nodes); err != nil {
			return err
		}
	}
	return nil
}

func everyBound(nodes []storage.Store) error {
	var errs []error
	for _, b := range bounds {
		if err := b.hold(nodes, 1, 40); err != nil {
			errs = append(errs, errors.New(b.name))
		}
	}
	return errors.Join(errs...)
}

func everyLaw(nodes []storage.Store) error {
	for _, l := range laws {
		if err := l.hold(nodes, 1, 100); err != nil {
			return err
		}
	}
	return nil
}

func TestSabotageIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store   func() storage.Store
		noticed []string
	}{
		"reads, then writes":      {racy, []string{"exactly", "fading", "linear"}},
		"charges denied calls":    {chargesDenied, []string{"twin", "scenario"}},
		"one too many":            {oneTooMany, []string{"twin", "exactly", "linear", "scenario", "bounds", "hostile keys"}},
		"one too few":             {oneTooFew, []string{"twin", "exactly", "linear", "scenario", "bounds"}},
		"forgets on a step back":  {forgetsOnStepBack, []string{"twin", "scenario"}},
		"charges peeks":           {chargesPeeks, []string{"twin", "linear", "scenario", "a peek writes nothing"}},
		"charges some of several": {chargesSome, []string{"twin", "linear", "scenario"}},
		"promises too much":       {promisesTooMuch, []string{"twin", "promise", "linear", "scenario"}},
		"promises too little":     {promisesTooLittle, []string{"twin", "promise", "linear", "scenario"}},
		"resets too early":        {resetsTooEarly, []string{"twin", "promise"}},
		"ignores the context":     {ignoresContext, []string{"an ended context charges nothing"}},
		"appends to the outcome":  {appendsToOutcome, []string{"an outcome may be used again"}},
		"takes invalid tickets":   {takesInvalid, []string{"invalid tickets"}},
		"confuses subjects":       {confusesSubjects, []string{"twin", "laws"}},
		"answers another's call":  {answersAnothers, []string{"one store, many callers"}},
		"unaware of denials":      {unawareOfDenials, []string{"twin"}},
		"forgets by the writer": {func() storage.Store {
			return &forgetsByTheWriter{NewModel(), map[stateKey]algorithm.Instant{}}
		}, []string{"expiry"}},
		"charges impossible costs": {chargesImpossible, []string{"twin", "an impossible cost touches nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, part := range c.noticed {
				check, ok := parts[part]
				if !ok {
					t.Fatalf("there is no part %q", part)
				}
				if err := check(fleetOf(c.store())); err == nil {
					t.Errorf("%s did not notice", part)
				}
			}
		})
	}
}

// A failure of Twin contains the short trace; the caller adds seed and step.
func TestTwinExplains(t *testing.T) {
	_, err := Suite{Plain: true}.twin(fleetOf(oneTooMany()), 1, 50_000)
	if err == nil {
		t.Fatal("not noticed")
	}
	for _, want := range []string{"trace ", "step ", "-model +store", "the last steps:", "this is enough"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestMinimise(t *testing.T) {
	var steps []step
	for i := range 100 {
		steps = append(steps, step{node: i})
	}
	has := func(steps []step, node int) bool {
		for _, s := range steps {
			if s.node == node {
				return true
			}
		}
		return false
	}
	short := minimise(steps, func(s []step) bool { return has(s, 17) && has(s, 80) })
	if len(short) != 2 || short[0].node != 17 || short[1].node != 80 {
		t.Errorf("minimised to %d steps %v, want those of nodes 17 and 80", len(short), short)
	}
}

// A generator that no longer reaches a case is noticed.
func TestTallyNotices(t *testing.T) {
	full, err := Suite{}.twin(fleetOf(NewModel()), 1, 50_000)
	if err != nil {
		t.Fatal(err)
	}
	if err := full.missing(false); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*reachedCase){
		"no allowed call":                  func(r *reachedCase) { r.allowed = 0 },
		"no denied call":                   func(r *reachedCase) { r.denied = 0 },
		"no peek":                          func(r *reachedCase) { r.peeks = 0 },
		"no impossible cost":               func(r *reachedCase) { r.never = 0 },
		"no frozen clock":                  func(r *reachedCase) { r.frozen = 0 },
		"no state redated":                 func(r *reachedCase) { r.repaired = 0 },
		"no denied call that counts":       func(r *reachedCase) { r.denialsCounted = 0 },
		"no tick of 1s":                    func(r *reachedCase) { r.ticks = nil },
		"neither may be below a twentieth": func(r *reachedCase) { r.denied = r.allowed / 30 },
	} {
		spoilt := *full
		spoil(&spoilt.kinds[algorithm.KindCounter])
		if err := spoilt.missing(false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want %q", err, name)
		}
	}
	for _, what := range append(guardedCalls, settlements...) {
		spoilt := *full
		spoilt.around = maps.Clone(full.around)
		delete(spoilt.around, what)
		if err := spoilt.missing(false); err == nil || !strings.Contains(err.Error(), "no "+what) {
			t.Errorf("error is %v, want %q", err, "no "+what)
		}
	}
}

// A store that lacks an ability fails with its name, unless the suite is plain.
func TestAbility(t *testing.T) {
	plain := fleetOf(takeFunc(nil))
	if err := (Suite{}).able(plain); err == nil || !strings.Contains(err.Error(), "storetest.takeFunc") {
		t.Errorf("error is %v, want one that names the store", err)
	}
	for _, s := range []Suite{{Plain: true}, {}} {
		if err := s.able(fleetOf(NewModel())); err != nil {
			t.Error(err)
		}
	}
	if err := (Suite{Plain: true}).able(plain); err != nil {
		t.Error(err)
	}
}

// A plain suite needs decisions only: a store without other abilities passes all of it.
func TestPlain(t *testing.T) {
	t.Parallel()
	Suite{Plain: true, Open: func(testing.TB, int) []storage.Store {
		return fleetOf(takeFunc(NewModel().Take))
	}}.Run(t)
}
