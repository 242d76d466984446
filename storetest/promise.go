package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Promise brings new subjects into random states and checks the numbers that the store then reports. A
// single retry passes after retry-after and not a microsecond sooner, even where strikes have led to a ban.
// After reset-after, and not sooner, the subject's limit is like new.
func (s Suite) Promise(t *testing.T) {
	racetest.Skip(t, sameAsTwin)
	nodes := s.open(t, fleet)
	s.seeded(t, func(seed uint64) error { return promises(nodes, seed, size(50, 300, 10_000)) })
}

// promises tests n random states of each kind.
func promises(nodes []storage.Store, seed uint64, n int) error {
	return trials(n*len(kinds), workers, func(trial int) error {
		r := random(seed, trial)
		m := indebted(r, anyMeter(r, kinds[trial%len(kinds)]))
		for { // until the trace ends with a promise worth testing
			g := newGenerator(r, len(nodes), true)
			g.meters, g.cast, g.steps = []*algorithm.Meter{m}, 1, 1+r.IntN(30)
			var p *algorithm.Penalty
			if often(r, 30) {
				p = g.anyPenalty()
			}
			steps, out, err := playAlone(nodes, g, p)
			if err != nil {
				return err
			}
			last := out.Decisions[0]
			if (last.ResetAfter > 0 || last.RetryAfter > 0) && binding(steps, out) {
				if err := testPromise(nodes, steps, last); err != nil {
					return fmt.Errorf("trace %d: %w; the last answer was %+v after:\n%s", trial, err, last, describe(steps, 0))
				}
				return nil
			}
			m = indebted(r, anyMeter(r, m.Kind))
		}
	})
}

// binding reports whether the last answer binds the store. The next request dates again what a wrong clock
// wrote. A request that writes nothing (a peek, an impossible cost, a banned request) reports numbers as if
// it had, and they hold from that next request on.
func binding(steps []step, out *storage.Outcome) bool {
	final := steps[len(steps)-1].ticket
	if c := final.Groups[0].Charges[0]; c.Cost > 0 && c.Meter.CanEver(c.Need()) && out.Groups[0].BannedUntil == 0 {
		return true
	}
	return !slices.ContainsFunc(steps, func(s step) bool { return s.ticket.Now > final.Now })
}

// playAlone plays a trace of single charges and returns it with the last outcome.
func playAlone(nodes []storage.Store, g *generator, p *algorithm.Penalty) ([]step, *storage.Outcome, error) {
	cast := newSubjects(1)
	var steps []step
	for range g.steps {
		s := g.next()
		s.ticket.Groups, s.who = s.ticket.Groups[:1], s.who[:1]
		group := &s.ticket.Groups[0]
		group.Alone, group.Penalty = false, p
		group.Charges[0].Overdraw = overdrawn(g.r, group.Charges[0].Meter)
		out, err := take(nodes, cast, &s)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, s)
		g.seen(&s, &answer{outcome: out})
	}
	return steps, g.found, nil
}

// testPromise replays the trace for a new subject before each question, because a question may change the
// state: a pass is charged, and a denial may be counted.
func testPromise(nodes []storage.Store, steps []step, last algorithm.Decision) error {
	final := &steps[len(steps)-1]
	asked := final.ticket.Groups[0].Charges[0]
	if after := last.RetryAfter; after > 0 {
		for _, early := range []algorithm.Instant{1, 0} {
			retry := *final
			retry.ticket.Now = final.ticket.Now.Add(after) - early
			d, err := playThen(nodes, steps, &retry)
			if err != nil {
				return err
			}
			if d.Allowed != (early == 0) {
				return fmt.Errorf("retry-after %v: a retry %d µs before that was answered %+v", after, early, d)
			}
		}
	}
	if after := last.ResetAfter; after > 0 {
		reset := final.ticket.Now.Add(after)
		peek := singleCharge(reset-1, asked.Meter, 0, 0, 0)
		if d, err := playThen(nodes, steps, &peek); err != nil {
			return err
		} else if d.Used == 0 {
			return fmt.Errorf("reset-after %v: nothing is used 1 µs before that: %+v", after, d)
		}
		peek = singleCharge(reset, asked.Meter, 0, 0, 0)
		if err := likeNew(nodes, steps, &peek); err != nil {
			return fmt.Errorf("reset-after %v: %w", after, err)
		}
		call := singleCharge(reset, asked.Meter, 1, final.ticket.MaxDelay, 7)
		if err := likeNew(nodes, steps, &call); err != nil {
			return fmt.Errorf("reset-after %v: %w", after, err)
		}
	}
	return nil
}

// playThen plays the trace for a new subject, then the question, and returns its decision.
func playThen(nodes []storage.Store, steps []step, question *step) (algorithm.Decision, error) {
	cast, _, err := replay(nodes, steps)
	if err != nil {
		return algorithm.Decision{}, err
	}
	out, err := take(nodes, cast, question)
	if err != nil {
		return algorithm.Decision{}, err
	}
	return out.Decisions[0], nil
}

// likeNew checks that the question gets the same answer as for a subject the store has never seen.
func likeNew(nodes []storage.Store, steps []step, question *step) error {
	got, err := playThen(nodes, steps, question)
	if err != nil {
		return err
	}
	want, err := playThen(nodes, nil, question)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%v: answered %+v, a newcomer %+v", question, got, want)
	}
	return nil
}
