package memstore

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A counter whose limit is lowered is swept when the lowered limit allows it, if a request has read it
// since, and otherwise when the old limit allows it.
func TestLooksExtendCounters(t *testing.T) {
	fast := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Window: time.Second, Burst: 1000}
	slow := fast
	slow.Count = 1
	strikes := func(forgive time.Duration) *algorithm.Penalty {
		p, err := algorithm.PenaltyTerms{After: 9, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: forgive}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	other := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 5, Window: time.Hour}.MustCompile()
	for name, c := range map[string]struct {
		look    func(g *storage.Group, t *storage.Ticket)
		forgets bool
	}{
		"nothing":             {nil, true},
		"a denied request":    {func(*storage.Group, *storage.Ticket) {}, false},
		"a peek":              {func(g *storage.Group, _ *storage.Ticket) { g.Charges[0].Cost = 0 }, false},
		"a denial by another": {func(_ *storage.Group, t *storage.Ticket) { t.Denied = true }, false},
		"a request of several": {func(g *storage.Group, _ *storage.Ticket) {
			g.Charges = append(g.Charges, algorithm.Charge{Meter: other})
		}, false},
		"a peek at a given instant": {func(g *storage.Group, t *storage.Ticket) { t.Now, g.Charges[0].Cost = 1<<40, 0 }, true},
	} {
		store, err := New(Options{MaxBytes: MinBytes})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var out storage.Outcome
		who := storage.Subject{1}
		take := func(ticket storage.Ticket) {
			t.Helper()
			if err := store.Take(t.Context(), &ticket, &out); err != nil {
				t.Fatal(err)
			}
		}
		spend := storage.Group{Subject: who, Charges: []algorithm.Charge{{Meter: fast.MustCompile(), Cost: 1000}}}
		take(storage.Ticket{Groups: []storage.Group{spend}})
		spend.Charges[0].Cost, spend.Penalty = 1000, strikes(time.Second)
		take(storage.Ticket{Groups: []storage.Group{spend}}) // this is a strike
		written := out.Now
		if c.look != nil {
			ticket := storage.Ticket{Groups: []storage.Group{{Subject: who, Charges: []algorithm.Charge{{Meter: slow.MustCompile(), Cost: 1}}, Penalty: strikes(time.Hour)}}}
			c.look(&ticket.Groups[0], &ticket)
			take(ticket)
		}
		before := store.Stats().Keys
		for i := range store.shards { // as the janitor would do later
			sh := &store.shards[i]
			sh.lock()
			visits := int(sh.size() + sh.count)           // a slot that is dropped is visited again
			sh.sweep(visits, written.Add(10*time.Second)) // past the fast limit and the grace period
			sh.unlock()
		}
		left, want := store.Stats().Keys, before
		if c.forgets {
			want = 0
		}
		if left != want {
			t.Errorf("looked at by %s: %d of %d states are left, want %d", name, left, before, want)
		}
	}
}
