package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// kinds are all kinds of state.
var kinds = []algorithm.Kind{
	algorithm.KindWindow, algorithm.KindCalendar, algorithm.KindCounter, algorithm.KindBucket,
	algorithm.KindInterval, algorithm.KindLeaky, algorithm.KindLog, algorithm.KindLeases,
}

// A tally counts the cases that traces reach, so that a generator that no longer reaches a case is noticed
// instead of passing everything.
type tally struct {
	kinds  [algorithm.KindLeases + 1]reachedCase
	around map[string]int // results of steps with guards, and of other operations
}

type reachedCase struct {
	allowed, denied, peeks, never, frozen, repaired, denialsCounted int
	ticks                                                           map[time.Duration]int
}

func (t *tally) add(w *chargeDecision, denialCounted bool) {
	if t == nil {
		return
	}
	r := &t.kinds[w.Meter.Kind]
	switch {
	case w.cost == 0:
		r.peeks++
	case !w.Meter.CanEver(w.cost):
		r.never++
	case w.found.Passes:
		r.allowed++
	default:
		r.denied++
	}
	count(&r.frozen, w.frozen)
	count(&r.repaired, w.repaired)
	count(&r.denialsCounted, denialCounted)
	if r.ticks == nil {
		r.ticks = map[time.Duration]int{}
	}
	r.ticks[time.Duration(w.Meter.Tick)*time.Microsecond]++
}

func count(n *int, seen bool) {
	if seen {
		*n++
	}
}

func (t *tally) merge(other *tally) {
	if t.around == nil {
		t.around = map[string]int{}
	}
	for what, n := range other.around {
		t.around[what] += n
	}
	for k := range t.kinds {
		a, b := &t.kinds[k], &other.kinds[k]
		a.allowed += b.allowed
		a.denied += b.denied
		a.peeks += b.peeks
		a.never += b.never
		a.frozen += b.frozen
		a.repaired += b.repaired
		a.denialsCounted += b.denialsCounted
		if a.ticks == nil {
			a.ticks = map[time.Duration]int{}
		}
		for tick, n := range b.ticks {
			a.ticks[tick] += n
		}
	}
}

// missing names every required case that was not reached.
func (t *tally) missing(plain bool) error {
	problems := t.missingAround(plain)
	for _, k := range kinds {
		r := &t.kinds[k]
		need := func(what string, n int) {
			if n == 0 {
				problems = append(problems, fmt.Errorf("kind %d: no %s", k, what))
			}
		}
		need("allowed call", r.allowed)
		need("denied call", r.denied)
		need("peek", r.peeks)
		need("state redated", r.repaired)
		if k != algorithm.KindLeases { // takes one whatever the cost, and dates every permit ahead
			need("impossible cost", r.never)
			need("frozen clock", r.frozen)
		}
		switch k {
		case algorithm.KindWindow, algorithm.KindCalendar, algorithm.KindCounter, algorithm.KindLog:
			need("denied call that counts", r.denialsCounted)
		}
		switch k {
		case algorithm.KindCounter, algorithm.KindBucket, algorithm.KindLeaky:
			for _, tick := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
				need(fmt.Sprintf("tick of %v", tick), r.ticks[tick])
			}
		}
		if least := (r.allowed + r.denied) / 20; r.allowed < least || r.denied < least {
			problems = append(problems, fmt.Errorf("kind %d: %d allowed and %d denied: neither may be below a twentieth", k, r.allowed, r.denied))
		}
	}
	return errors.Join(problems...)
}
