package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Guards checks the promises of bans, duplicates, reservations, permits and overdrafts on random traces,
// with its own arithmetic.
func (s Suite) Guards(t *testing.T) {
	racetest.Skip(t, sameAsTwin)
	nodes := s.open(t, fleet)
	n := size(20, 100, 20_000)
	for _, g := range guards {
		if g.able && s.Plain {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			s.seeded(t, func(seed uint64) error { return g.hold(nodes, seed, n) })
		})
	}
}

// A guard is one promise, tested by a random trace.
type guard struct {
	name string
	able bool // needs more than decisions
	tell func(t *liveTrace) error
}

var guards = []guard{
	{"bans come and go as a list of strikes says", false, strikesAsListed},
	{"no clock makes a ban longer", true, bansUnderAnyClock},
	{"while banned nothing is touched", true, bannedTouchesNothing},
	{"only a rule's own limits strike", false, foreignDenials},
	{"a ban by hand holds to the microsecond", true, bansByHand},
	{"a repeat is free as often as was agreed", false, repeatsAsAgreed},
	{"one id, many calls", false, oneIDOften},
	{"every id four times", false, everyIDFourTimes},
	{"repeats for ten minutes", false, repeatsForMinutes},
	{"a denied id is decided again", false, deniedIDs},
	{"duplicates in any trailing window", false, duplicatesOverLogs},
	{"duplicates of a larger cost", false, largerDuplicates},
	{"duplicates hold permits", true, duplicatesHoldPermits},
	{"what is given back counts once", true, givenBackOnce},
	{"a settlement strikes once", true, settlementsStrikeOnce},
	{"settling never exceeds a limit", true, settlesWithin},
	{"leases", true, leasesAsHeld},
	{"an overdraft has an end", false, overdraftEnds},
	{"a reset forgets", true, resetForgets},
	{"a late charge counts once, and what still counts", true, lateCountsOnce},
	{"a late charge harms nobody", true, lateHarmsNobody},
}

func (g guard) hold(nodes []storage.Store, seed uint64, n int) error {
	return trials(n, workers, func(trial int) error {
		t := &liveTrace{r: random(seed, trial), nodes: nodes, cast: newSubjects(2), now: scenarioStart}
		if err := g.tell(t); err != nil {
			return fmt.Errorf("trace %d: %w, after:\n%s", trial, err, describe(t.steps, 0))
		}
		return nil
	})
}

// A liveTrace is a trace that is generated while it is played for new subjects.
type liveTrace struct {
	r     *rand.Rand
	nodes []storage.Store
	cast  []storage.Subject
	now   algorithm.Instant
	steps []step
}

func (t *liveTrace) play(s step) (*answer, error) {
	s.node = t.r.IntN(len(t.nodes))
	t.steps = append(t.steps, s)
	a, err := play(t.nodes, t.cast, &s)
	return &a, err
}

// ask makes a request of one group for the first subject of the cast.
func (t *liveTrace) ask(g storage.Group) (*storage.Outcome, error) {
	s := singleGroup(t.now, t.r.Uint64()|1, g)
	s.ticket.MaxDelay = algorithm.AnyDelay
	a, err := t.play(s)
	if err == nil && a.refusal != nil {
		err = a.refusal
	}
	return &a.outcome, err
}

// peek returns the numbers of a meter.
func (t *liveTrace) peek(m *algorithm.Meter) (algorithm.Decision, error) {
	out, err := t.ask(storage.Group{Charges: []algorithm.Charge{{Meter: m}}})
	if err != nil {
		return algorithm.Decision{}, err
	}
	return out.Decisions[0], nil
}

// wait advances time: not at all, a little, up to twice the span, or by exactly the span.
func (t *liveTrace) wait(span time.Duration) {
	µs := span.Microseconds()
	switch t.r.IntN(6) {
	case 0, 1:
	case 2:
		t.now++
	case 3:
		t.now += algorithm.Instant(µs + t.r.Int64N(3) - 1)
	case 4:
		t.now += algorithm.Instant(t.r.Int64N(2*µs + 1))
	case 5:
		t.now += algorithm.Instant(t.r.Int64N(µs/4 + 1))
	}
}

func group(m *algorithm.Meter, cost int64) storage.Group {
	return storage.Group{Charges: []algorithm.Charge{{Meter: m, Cost: cost}}}
}

func perMinute(count int64) *algorithm.Meter {
	return algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: count, Window: time.Minute}.MustCompile()
}

// returning returns a small meter that supports refunds and has room for more.
func returning(r *rand.Rand) *algorithm.Meter {
	for {
		if m := smallMeter(r, pick(r, kinds...)); m.Returns() == nil && m.Kind != algorithm.KindLeases {
			return m
		}
	}
}
