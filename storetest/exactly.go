package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Exactly starts many clients at once, spread over a fleet, and requires that exactly as many pass as the
// limit allows: not one more, not one fewer, every time.
func (s Suite) Exactly(t *testing.T) {
	n := size(30, 100, 100_000)
	nodes := s.open(t, fleet)
	for _, r := range rushes {
		if r.apart && s.OneSubject {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			if err := r.trials(nodes, n); err != nil {
				t.Error(err)
			}
		})
	}
	for _, st := range storms {
		if st.able && s.Plain {
			continue
		}
		t.Run(st.name, func(t *testing.T) {
			if err := st.trials(nodes, size(20, 100, 30_000)); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("given instant", func(t *testing.T) {
		if err := minuteRush(nodes, n); err != nil {
			t.Error(err)
		}
	})
	t.Run("last place in a fading window", func(t *testing.T) {
		if err := fadingRush(nodes[:2], n); err != nil {
			t.Error(err)
		}
	})
}

// A concurrentTrial is a limit that many clients hit at once. On the real clock its window is so long that nothing
// becomes free during the rush.
type concurrentTrial struct {
	name     string
	limit    algorithm.Limit
	prepare  []step // before the clients start
	now      algorithm.Instant
	maxDelay time.Duration
	others   []algorithm.Limit // wider limits charged along with it
	apart    bool              // for another subject
}

var rushes = []concurrentTrial{
	{name: "fixed window", limit: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: algorithm.MaxWindow}},
	{name: "calendar year", limit: algorithm.Limit{Algorithm: algorithm.FixedWindow, Period: algorithm.Year}},
	{name: "sliding window log", limit: algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Window: time.Hour}},
	{name: "sliding window counter", limit: algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Window: algorithm.MaxWindow}},
	{name: "token bucket", limit: algorithm.Limit{Algorithm: algorithm.TokenBucket, Window: algorithm.MaxWindow}},
	{name: "interval bucket", limit: algorithm.Limit{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Window: algorithm.MaxWindow}},
	{name: "leaky bucket", limit: algorithm.Limit{Algorithm: algorithm.LeakyBucket, Window: algorithm.MaxWindow}, maxDelay: algorithm.AnyDelay},
	{name: "concurrency", limit: algorithm.Limit{Algorithm: algorithm.Concurrency, Window: time.Hour}},
	{name: "several limits", limit: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: algorithm.MaxWindow}, others: wide},
	{name: "several subjects", limit: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: algorithm.MaxWindow}, others: wide, apart: true},
}

var wide = []algorithm.Limit{
	{Algorithm: algorithm.SlidingWindowLog, Count: 1000, Window: time.Hour},
	{Algorithm: algorithm.TokenBucket, Count: 1000, Window: algorithm.MaxWindow},
}

// trials starts 10·L clients for limits of 5 to 10, repeatedly and with new subjects, and includes 50 and
// 100 clients at a limit of 10.
func (r concurrentTrial) trials(nodes []storage.Store, n int) error {
	return trials(n, 8, func(i int) error {
		trial := r
		count := int64(5 + i%6)
		callers := int(10 * count)
		if i%10 == 9 {
			count, callers = 10, 50
		}
		trial.limit.Count = count
		if trial.limit.Algorithm == algorithm.LeakyBucket {
			trial.limit.Queue = count - 1
		}
		if err := trial.once(nodes, callers, int(count)); err != nil {
			return fmt.Errorf("trial %d: %w", i, err)
		}
		return nil
	})
}

// minuteRush is the textbook rush, ten a minute, at an instant that the ticket brings.
func minuteRush(nodes []storage.Store, n int) error {
	algorithms := []algorithm.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindowLog, algorithm.SlidingWindowCounter, algorithm.TokenBucket}
	return trials(n, 8, func(i int) error {
		r := concurrentTrial{
			limit: algorithm.Limit{Algorithm: algorithms[i%len(algorithms)], Count: 10, Window: time.Minute},
			now:   scenarioStart + algorithm.Instant(i),
		}
		return r.once(nodes, 50+50*(i%2), 10)
	})
}

// fadingRush: eight in the previous window, two in this one, a quarter overlaps, limit 5, two nodes at
// once: exactly one passes.
func fadingRush(nodes []storage.Store, n int) error {
	limit := algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 8, Window: time.Minute}
	wide := limit.MustCompile()
	limit.Count = 5
	r := concurrentTrial{limit: limit, now: scenarioStart.Add(105 * time.Second), prepare: []step{
		singleCharge(scenarioStart, wide, 8, 0, 0),
		singleCharge(scenarioStart.Add(105*time.Second), wide, 2, 0, 0),
	}}
	return trials(n, 8, func(int) error { return r.once(nodes, 2, 1) })
}

// errTornWindow means that the real clock entered another window during the rush, so the rush proves
// nothing.
var errTornWindow = errors.New("the window ended during the rush")

// once runs one rush of clients on new subjects.
func (r concurrentTrial) once(nodes []storage.Store, callers, admitted int) error {
	for {
		if err := r.attempt(nodes, callers, admitted); !errors.Is(err, errTornWindow) {
			return err
		}
	}
}

func (r concurrentTrial) attempt(nodes []storage.Store, callers, admitted int) error {
	m, err := r.limit.Compile()
	if err != nil {
		return err
	}
	cast, _, err := replay(nodes, r.prepare)
	if err != nil {
		return err
	}
	groups := []storage.Group{{Subject: cast[0], Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}
	if r.apart {
		groups = append([]storage.Group{{Subject: newSubject()}}, groups...)
	}
	for _, l := range r.others {
		groups[0].Charges = append(groups[0].Charges, algorithm.Charge{Meter: l.MustCompile(), Cost: 1})
	}
	outs, err := r.release(nodes, callers, groups)
	if err != nil {
		return err
	}
	if r.now == 0 && isTorn(m, outs) {
		return errTornWindow
	}
	passed := 0
	for i := range outs {
		if outs[i].Allowed {
			passed++
		}
	}
	if passed != admitted {
		return fmt.Errorf("%v: %d of %d callers at once passed, want %d", m, passed, callers, admitted)
	}
	if m.Kind == algorithm.KindLeaky {
		if err := inOrder(m, outs); err != nil {
			return err
		}
	}
	return r.leftBehind(nodes[0], groups, int64(admitted))
}

// release makes all requests at once, from as many goroutines, over all nodes.
func (r concurrentTrial) release(nodes []storage.Store, callers int, groups []storage.Group) ([]storage.Outcome, error) {
	outs := make([]storage.Outcome, callers)
	err := atOnce(callers, func(i int) error {
		t := &storage.Ticket{Now: r.now, MaxDelay: r.maxDelay, Nonce: uint64(i + 1), Groups: groups}
		return nodes[i%len(nodes)].Take(context.Background(), t, &outs[i])
	})
	return outs, err
}

func isTorn(m *algorithm.Meter, outs []storage.Outcome) bool {
	window := func(o storage.Outcome) algorithm.Instant {
		if m.Kind == algorithm.KindCalendar {
			return m.PeriodStarts(o.Now)[1]
		}
		return o.Now / algorithm.Instant(m.Window)
	}
	switch m.Kind {
	case algorithm.KindWindow, algorithm.KindCalendar, algorithm.KindCounter, algorithm.KindInterval:
		return slices.ContainsFunc(outs, func(o storage.Outcome) bool { return window(o) != window(outs[0]) })
	}
	return false
}

// inOrder checks that no two of the clients that passed start at the same time.
func inOrder(m *algorithm.Meter, outs []storage.Outcome) error {
	var starts []algorithm.Instant
	for i := range outs {
		if outs[i].Allowed {
			starts = append(starts, outs[i].Now.Add(outs[i].Decisions[0].Delay))
		}
	}
	slices.SortFunc(starts, cmp.Compare)
	apart := algorithm.Instant(m.Window / m.Count)
	for i := 1; i < len(starts); i++ {
		// Starts fall on ticks, except the first, which falls anywhere within a tick.
		if starts[i]-starts[i-1] < apart-algorithm.Instant(2*m.Tick) {
			return fmt.Errorf("%v: two start %v apart", m, starts[i].Sub(starts[i-1]))
		}
	}
	return nil
}

// leftBehind checks that every limit is charged for what passed and nothing else.
func (r concurrentTrial) leftBehind(node storage.Store, groups []storage.Group, admitted int64) error {
	if len(r.prepare) > 0 {
		return nil // the charges are not only from this rush
	}
	var out storage.Outcome
	peek := &storage.Ticket{Now: r.now}
	for _, g := range groups {
		g.Charges = slices.Clone(g.Charges)
		for i := range g.Charges {
			g.Charges[i].Cost = 0
		}
		peek.Groups = append(peek.Groups, g)
	}
	if err := node.Take(context.Background(), peek, &out); err != nil {
		return err
	}
	for i, d := range out.Decisions {
		if d.Used != admitted {
			return fmt.Errorf("%d passed, but limit %d of the ticket then has %d used", admitted, i+1, d.Used)
		}
	}
	return nil
}
