package atomicity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// Every way does what the page about it says: some admit too many, some deny falsely, the others are exact, at the
// documented number of trips and commands.
func TestWays(t *testing.T) {
	callers := []int{1, 5, 50}
	var tables []*report.Table
	if err := (lab.Bench{Context: t.Context(), Repeat: 5}).Run(func(b *lab.Bench) {
		server := b.Redis()
		for _, n := range callers {
			table := newTable(fmt.Sprint(n))
			for _, w := range ways {
				b.Step("%s", w.name)
				b.Scope(func() { race(b, server, table, w, load{n, time.Millisecond}) })
			}
			tables = append(tables, table)
		}
		if left := server.Command("KEYS", "penstock-race:*"); left != "" {
			t.Errorf("keys left behind: %q", left)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for i, w := range ways {
		of := func(callers, column int) float64 { return tables[callers].Value(w.name, column) }
		const alone, few, many = 0, 1, 2 // callers
		limit := float64(limit.Count)
		enforced := of(many, least) == limit && of(many, most) == limit
		switch i {
		case 0: // check then add
			enforced = of(many, least) >= limit && of(many, most) > limit
		case 1: // four steps
			enforced = of(many, most) <= limit && of(many, least) < limit && of(many, logged) == 50
		case 2: // with a shared member
			enforced = of(many, least) == 50 && of(many, logged) == 1
		}
		wantTrips, wantCommands := []float64{3, 4, 4, 1, 5, 2, 1, 1, 1}[i], []float64{4, 4, 4, 6, 8, 7, 6, 6, 0}[i]
		exactCommands := wantCommands == 0 || of(alone, commands) == wantCommands
		gaveUpAny := slices.ContainsFunc(tables, func(t *report.Table) bool { return t.Value(w.name, gaveUp) > 0 })
		if !enforced || of(few, least) != 5 || of(alone, trips) != wantTrips || of(alone, retries) != 0 || !exactCommands || gaveUpAny {
			t.Errorf("%s, with %v callers: %v, %v, %v; want %v trips and %v commands alone",
				w.name, callers, tables[alone].Rows[i], tables[few].Rows[i], tables[many].Rows[i], wantTrips, wantCommands)
		}
	}
}
