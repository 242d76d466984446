package redisstore

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// An outcome that is used again has the time of its own ticket, even if Redis' clock was set back since the last one.
func TestJoinedOutcomeHasItsOwnTime(t *testing.T) {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute}.MustCompile()
	ticket := &storage.Ticket{Groups: []storage.Group{
		{Subject: storage.Subject{1}, Charges: []algorithm.Charge{{Meter: m, Cost: 1}}},
		{Subject: storage.Subject{2}, Charges: []algorithm.Charge{{Meter: m, Cost: 1}}},
	}}
	var out storage.Outcome
	for _, now := range []algorithm.Instant{2_000_000_000, 1_000_000_000} {
		parts := partsOf(ticket, false)
		if len(parts) != 2 {
			t.Fatalf("%d parts, want 2", len(parts))
		}
		for i := range parts {
			parts[i].now = now - algorithm.Instant(i)
			parts[i].found = []storage.ChargeResult{{State: algorithm.State{At: now, Used: 1}, Passes: true}}
			parts[i].settle()
		}
		join(ticket, parts, &out)
		if out.Now != now || !out.Allowed {
			t.Errorf("decided at %d, want %d: %+v", out.Now, now, out)
		}
	}
}
