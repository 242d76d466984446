package denycache_test

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// Limits that count all requests are alone, and each of a ticket must be known to be over.
func TestLimitsThatCountAll(t *testing.T) {
	s := newStage(cached)
	of := func(count, cost int64, subject byte) storage.Group {
		l := hourly(count)
		l.CountAll = true
		g := group(l, cost)
		g.Subject[8] += subject
		g.Alone = true
		return g
	}
	for i, step := range []struct {
		at     penstock.Instant
		groups []storage.Group
		asks   int64
		over   bool // the last group
		used   int64
	}{
		{1, []storage.Group{of(2, 2, 0)}, 1, false, 2},
		{2, []storage.Group{of(2, 1, 0)}, 1, true, 3},
		{3, []storage.Group{of(2, 5, 0)}, 0, true, 3}, // not counted
		{4, []storage.Group{of(2, 0, 0)}, 0, true, 3},
		{5, []storage.Group{of(2, 1, 0), of(2, 1, 1)}, 1, false, 1}, // the other passes, and both are counted
		{6, []storage.Group{of(2, 2, 1)}, 1, true, 3},
		{7, []storage.Group{of(2, 1, 1), of(2, 1, 0), of(2, 1, 1)}, 0, true, 3},
		{8, []storage.Group{of(4, 0, 0)}, 1, false, 4},                     // the limit was raised
		{9, []storage.Group{group(hourly(9), 1), of(2, 1, 1)}, 1, true, 4}, // the first is of the same counter as the next
		{1 + 60*second, []storage.Group{of(2, 1, 0)}, 0, true, 3},
		{2 + 60*second, []storage.Group{of(2, 1, 0)}, 1, true, 6}, // it is too long ago
		{3600*second - 1, []storage.Group{of(2, 1, 0)}, 1, true, 7},
		{3600 * second, []storage.Group{of(2, 1, 0)}, 1, false, 1}, // the next window
		{3600*second + 1, []storage.Group{of(0, 1, 0)}, 1, true, 2},
		{3600*second + 2, []storage.Group{of(0, 1, 0)}, 0, true, 2},
	} {
		var out storage.Outcome
		s.asks(step.asks, func() { out = s.take(start+step.at, step.groups...) })
		g, d := out.Groups[len(out.Groups)-1], out.Decisions[len(out.Decisions)-1]
		if g.Allowed == step.over || d.Allowed == step.over || d.Used != step.used || g.Taken == (step.asks == 0) {
			t.Errorf("step %d: over %v, used %d, taken %v; want over %v, used %d", i, !d.Allowed, d.Used, g.Taken, step.over, step.used)
		}
		if err := s.verdict(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}
