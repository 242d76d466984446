package denycache_test

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A ban that a wrong clock has set is repaired by the first request. The answer to a peek before it must
// not keep that request from the store, or the ban would last until the wrong clock's time comes.
func TestPeekDoesNotHideARepair(t *testing.T) {
	penalty, err := algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Millisecond}, ForgiveAfter: 10 * time.Hour}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	m := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 7, Window: time.Hour}.MustCompile()
	node := newCache(t, storetest.NewModel())
	now := penstock.InstantOf(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
	if _, err := node.Ban(t.Context(), &storage.Ban{Now: now.Add(13 * time.Hour), Penalty: penalty, Length: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at      penstock.Instant
		cost    int64
		allowed bool
	}{{now, 0, false}, {now, 1, false}, {now.Add(time.Hour), 1, true}} {
		var out storage.Outcome
		ticket := storage.Ticket{Now: c.at, Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: c.cost}}, Penalty: penalty}}}
		if err := node.Take(t.Context(), &ticket, &out); err != nil || out.Allowed != c.allowed {
			t.Errorf("cost %d after %v: allowed %v, want %v (%v)", c.cost, c.at.Sub(now), out.Allowed, c.allowed, err)
		}
	}
}
