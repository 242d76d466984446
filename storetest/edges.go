package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Edges checks invalid and excessive use: none of it may be charged, mixed up or fatal.
func (s Suite) Edges(t *testing.T) {
	nodes := s.open(t, fleet)
	for _, e := range edges {
		if e.able && s.Plain {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			if !e.shared {
				racetest.Skip(t, racetest.OneGoroutine)
			}
			if err := e.check(nodes); err != nil {
				t.Error(err)
			}
		})
	}
}

type edge struct {
	name   string
	able   bool // needs more than decisions
	check  func(nodes []storage.Store) error
	shared bool // by several goroutines
}

var edges = []edge{
	{"a peek writes nothing", false, checkPeek, false},
	{"an impossible cost touches nothing", false, checkImpossible, false},
	{"an ended context charges nothing", false, checkContext, false},
	{"invalid tickets", false, checkInvalid, false},
	{"the largest ticket", false, checkLargest, false},
	{"the first and last instants", false, checkExtremes, false},
	{"the store's own clock", false, checkClock, false},
	{"an outcome may be used again", false, checkReuse, false},
	{name: "one store, many callers", shared: true, check: checkSharing},
	{"hostile keys", false, checkKeys, false},
	{"hostile ids", false, checkIDs, false},
	{"invalid settlements", true, checkInvalidSettlements, false},
	{"settlements of what is not there", true, checkRefusedSettlements, false},
	{"bans that cannot be", true, checkBans, false},
	{"an ended context changes nothing", true, checkEndedContexts, false},
	{"resets that cannot be", true, checkInvalidResets, false},
	{"some of several reservations", true, checkInspection, false},
	{"a settlement's answer may be used again", true, checkSettledReuse, false},
	{"invalid late charges", true, checkInvalidLate, false},
	{"late charges to a long log", true, checkLongLog, false},
	{"late charges of which nothing counts", true, checkFullLate, false},
	{"guards at the first and last instants", true, checkGuardedExtremes, false},
}

// everyKind returns one meter of each kind, of about three a day.
func everyKind() []*algorithm.Meter {
	const window = 24 * time.Hour
	limits := []algorithm.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: window},
		{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Day},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 3, Window: window},
		{Algorithm: algorithm.TokenBucket, Count: 3, Window: window},
		{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Count: 3, Window: window},
		{Algorithm: algorithm.LeakyBucket, Count: 3, Queue: 2, Window: window},
		{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: window},
		{Algorithm: algorithm.Concurrency, Count: 3, Window: window},
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: window, CountDenied: true, Ordinal: 1},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 3, Window: window, CountDenied: true, Ordinal: 1},
		{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: window, CountDenied: true, Ordinal: 1},
	}
	meters := make([]*algorithm.Meter, len(limits))
	for i, l := range limits {
		meters[i] = l.MustCompile()
	}
	return meters
}

// forEachKind runs a check for every meter and says for which one it failed.
func forEachKind(check func(m *algorithm.Meter) error) error {
	var errs []error
	for _, m := range everyKind() {
		if err := check(m); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", m, err))
		}
	}
	return errors.Join(errs...)
}

// unnoticed plays a history twice, once with extra steps in between, and requires the same answer to a
// later request: the extra steps left no trace.
func unnoticed(nodes []storage.Store, past, between []step, question step) error {
	want, err := playThen(nodes, past, &question)
	if err != nil {
		return err
	}
	got, err := playThen(nodes, slices.Concat(past, between), &question)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%v is answered %+v, but %+v if these steps did not come before:\n%s", &question, got, want, describe(between, len(past)))
	}
	return nil
}

func calls(n int, now algorithm.Instant, m *algorithm.Meter, cost int64) []step {
	var steps []step
	for i := range n {
		steps = append(steps, singleCharge(now, m, cost, algorithm.AnyDelay, uint64(i+1)))
	}
	return steps
}

func checkPeek(nodes []storage.Store) error {
	now := scenarioStart
	return forEachKind(func(m *algorithm.Meter) error {
		ask := singleCharge(now, m, 1, algorithm.AnyDelay, 99)
		later := singleCharge(now+day, m, 1, algorithm.AnyDelay, 99)
		ahead := calls(3, now+400*day, m, 1) // a wrong clock: only a request may date it again
		return errors.Join(
			unnoticed(nodes, nil, calls(5, now, m, 0), ask),
			unnoticed(nodes, calls(2, now, m, 1), calls(5, now+1, m, 0), ask),
			unnoticed(nodes, calls(4, now, m, 1), calls(5, now+2, m, 0), later),
			unnoticed(nodes, ahead, calls(5, now, m, 0), singleCharge(now+400*day, m, 1, algorithm.AnyDelay, 99)),
		)
	})
}

func checkImpossible(nodes []storage.Store) error {
	now := scenarioStart
	return forEachKind(func(m *algorithm.Meter) error {
		if m.Kind == algorithm.KindLeases {
			return nil
		}
		for _, cost := range []int64{m.Capacity + 1, algorithm.MaxCount} {
			for past := range 4 {
				ask := singleCharge(now+1, m, 1, algorithm.AnyDelay, 99)
				if err := unnoticed(nodes, calls(past, now, m, 1), calls(3, now, m, cost), ask); err != nil {
					return err
				}
				impossible := singleCharge(now, m, cost, algorithm.AnyDelay, 99)
				d, err := playThen(nodes, calls(past, now, m, 1), &impossible)
				if err != nil {
					return err
				}
				if d.Allowed || d.RetryAfter != algorithm.Never || d.Used != int64(past) {
					return fmt.Errorf("cost %d with %d used is answered %+v, want a denial for good", cost, past, d)
				}
			}
		}
		return nil
	})
}

func checkContext(nodes []storage.Store) error {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	return forEachKind(func(m *algorithm.Meter) error {
		s := singleCharge(scenarioStart, m, 1, algorithm.AnyDelay, 1)
		cast := newSubjects(1)
		for _, ctx := range []context.Context{cancelled, expired} {
			var out storage.Outcome
			err := nodes[0].Take(ctx, s.on(cast), &out)
			if !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, ctx.Err()) {
				return fmt.Errorf("error is %v, want one that wraps %v and %v", err, storage.ErrUnavailable, ctx.Err())
			}
		}
		return checkUnused(nodes, cast[0], m)
	})
}

// checkUnused checks that the subject has used none of the meter.
func checkUnused(nodes []storage.Store, who storage.Subject, m *algorithm.Meter) error {
	peek := singleCharge(scenarioStart, m, 0, 0, 0)
	out, err := take(nodes, []storage.Subject{who}, &peek)
	if err != nil {
		return err
	}
	if out.Decisions[0].Used != 0 {
		return fmt.Errorf("%d were charged", out.Decisions[0].Used)
	}
	return nil
}

// checkClock asks for the store's own instant. It must be in the present, which this check assumes to begin
// in 2020, because it has no other clock to compare with.
func checkClock(nodes []storage.Store) error {
	present := algorithm.InstantOf(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	return forEachKind(func(m *algorithm.Meter) error {
		s := singleCharge(0, m, 1, algorithm.AnyDelay, 1)
		out, err := take(nodes, newSubjects(1), &s)
		if err != nil {
			return err
		}
		if out.Now < present || out.Now > algorithm.MaxInstant || !out.Allowed {
			return fmt.Errorf("a newcomer's first call: decided at %d, pass is %v", out.Now, out.Allowed)
		}
		return nil
	})
}

// checkReuse passes the store an outcome that still holds what another store might have left.
func checkReuse(nodes []storage.Store) error {
	stale := storage.Outcome{
		Now: 1, Allowed: true,
		Groups:    make([]storage.GroupOutcome, 5, 40),
		Decisions: make([]algorithm.Decision, 7, 40),
	}
	for i := range stale.Decisions {
		stale.Decisions[i] = algorithm.Decision{Allowed: true, Used: 99, Delay: 99, Receipt: algorithm.Receipt{Cost: 99}}
	}
	return forEachKind(func(m *algorithm.Meter) error {
		used, fresh := newSubjects(1), newSubjects(1)
		for i, s := range calls(5, scenarioStart, m, 1) {
			want, err := take(nodes, fresh, &s)
			if err != nil {
				return err
			}
			if err := nodes[0].Take(context.Background(), s.on(used), &stale); err != nil {
				return err
			}
			if diff := difference(&answer{outcome: want}, &answer{outcome: stale}); diff != "" {
				return fmt.Errorf("call %d differs in an outcome that was used before (-new +used):\n%s", i, diff)
			}
		}
		return nil
	})
}

// checkSharing runs clients with their own subjects concurrently on one node: no client may receive the
// answer of another.
func checkSharing(nodes []storage.Store) error {
	meters := everyKind()
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() {
			m := meters[i%len(meters)]
			model, cast := NewModel(), newSubjects(1)
			for j := range 50 {
				s := singleCharge(scenarioStart+algorithm.Instant(i*1000+j), m, int64(j%3), algorithm.AnyDelay, uint64(j+1))
				want, got, err := playBoth(model, nodes[:1], cast, &s)
				if err != nil {
					errs[i] = err
					return
				}
				if diff := difference(want, got); diff != "" {
					errs[i] = fmt.Errorf("%v among other callers (-model +store):\n%s", &s, diff)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
