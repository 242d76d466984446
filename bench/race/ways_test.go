package race

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

const testLimit = 10

// raceOf runs one way on a real server: four nodes, 1 ms of round trip.
func raceOf(t *testing.T, way Method, callers, trials int) Cell {
	t.Helper()
	report, err := Run(t.Context(), Options{
		Addr: redistest.Start(t).Addr, Nodes: 4, Trials: trials,
		Callers: []int{callers}, RoundTrips: []time.Duration{time.Millisecond},
		Limit: Limit{Calls: testLimit, Window: time.Minute}, Patience: 30 * time.Second,
		Ways: []Method{way},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Cells) != 1 {
		t.Fatalf("one load gave %d cells", len(report.Cells))
	}
	return report.Cells[0]
}

func TestAtomicWaysAdmitExactlyTheLimit(t *testing.T) {
	exactly := Spread{testLimit, testLimit, testLimit}
	for _, way := range []Method{transaction, locked, optimistic, scriptText, scriptCached, penstockWay} {
		t.Run(way.Name, func(t *testing.T) {
			cell := raceOf(t, way, 50, 3)
			if cell.Admitted != exactly || cell.GaveUp != 0 {
				t.Errorf("admitted %+v with %d giving up, want exactly %d every time", cell.Admitted, cell.GaveUp, testLimit)
			}
			if cell.OverAdmitted.Max != 0 || cell.FalselyDenied.Max != 0 {
				t.Errorf("over %+v, falsely denied %+v, want none", cell.OverAdmitted, cell.FalselyDenied)
			}
		})
	}
}

func TestFewerCallersThanTheLimitAllPass(t *testing.T) {
	for _, way := range Ways() {
		t.Run(way.Name, func(t *testing.T) {
			if cell := raceOf(t, way, 5, 2); cell.Admitted.Min != 5 || cell.FalselyDenied.Max != 0 {
				t.Errorf("admitted %+v of 5, falsely denied %+v", cell.Admitted, cell.FalselyDenied)
			}
		})
	}
}

func TestCheckThenAddOverAdmits(t *testing.T) {
	cell := raceOf(t, checkThenAdd, 50, 5)
	if cell.OverAdmitted.Max == 0 {
		t.Errorf("admitted %+v in 5 trials: the race did not show", cell.Admitted)
	}
	if cell.Admitted.Min < testLimit {
		t.Errorf("admitted %+v: a client that sees fewer than %d must pass", cell.Admitted, testLimit)
	}
}

func TestFourStepsDenyFalselyAndNeverOverAdmit(t *testing.T) {
	cell := raceOf(t, addThenCount, 50, 5)
	if cell.OverAdmitted.Max != 0 {
		t.Errorf("admitted %+v, above %d", cell.Admitted, testLimit)
	}
	if cell.FalselyDenied.Max == 0 {
		t.Errorf("admitted %+v in 5 trials: nobody was denied falsely", cell.Admitted)
	}
	if cell.Logged.Min != 50 {
		t.Errorf("logged %+v, want the denied calls too", cell.Logged)
	}
}

func TestSharedMemberLetsEverybodyThrough(t *testing.T) {
	cell := raceOf(t, addThenCountShared, 50, 3)
	if cell.Admitted.Min != 50 || cell.Logged.Max != 1 {
		t.Errorf("admitted %+v, logged %+v, want 50 admitted on one member", cell.Admitted, cell.Logged)
	}
}

func TestCostOfOneCall(t *testing.T) {
	for _, want := range []struct {
		way             Method
		trips, commands float64
	}{
		{checkThenAdd, 3, 4},
		{addThenCount, 4, 4},
		{transaction, 1, 6},
		{locked, 5, 8},     // SET; ZREMRANGEBYSCORE, ZCARD, ZADD, PEXPIRE; EVAL with GET, DEL
		{optimistic, 2, 7}, // WATCH, ZCOUNT; MULTI, three, EXEC
		{scriptText, 1, 6}, // EVAL with TIME and four
		{scriptCached, 1, 6},
	} {
		t.Run(want.way.Name, func(t *testing.T) {
			cell := raceOf(t, want.way, 1, 3)
			if cell.TripsPerCall != want.trips || cell.CommandsPerCall != want.commands || cell.RetriesPerCall != 0 {
				t.Errorf("alone: %v trips, %v commands, %v retries, want %v, %v, 0",
					cell.TripsPerCall, cell.CommandsPerCall, cell.RetriesPerCall, want.trips, want.commands)
			}
		})
	}
}

func TestContendedWaysRetry(t *testing.T) {
	for _, way := range []Method{locked, optimistic} {
		t.Run(way.Name, func(t *testing.T) {
			if cell := raceOf(t, way, 30, 2); cell.RetriesPerCall == 0 {
				t.Error("30 callers at once never got in each other's way")
			}
		})
	}
}

// A script that the server does not know costs the first client one more trip, and every client gets an answer.
func TestCachedScriptSurvivesAnUnknownHash(t *testing.T) {
	addr := redistest.Start(t).Addr
	net, err := openNetwork(addr, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer net.close()
	d, err := scriptCached.Open(t.Context(), net.nodes[0], Limit{Calls: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Answer{{Allowed: true, Trips: 2}, {Allowed: false, Trips: 1}} {
		got, err := d.Decide(t.Context(), "key")
		if err != nil || got != want {
			t.Errorf("call %d: got %+v, %v, want %+v", i+1, got, err, want)
		}
	}
}

// A client that waits for a lock that is never released gives up, and is counted.
func TestLockWaiterGivesUp(t *testing.T) {
	addr := redistest.Start(t).Addr
	if _, err := redistest.Command(addr, "SET", "{key}:lock", "somebody else"); err != nil {
		t.Fatal(err)
	}
	net, err := openNetwork(addr, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer net.close()
	d, err := locked.Open(t.Context(), net.nodes[0], Limit{Calls: 1, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := burst(t.Context(), []Decider{d}, 3, "key", 50*time.Millisecond)
	count := &tally{limit: 1, callers: 3}
	if err := count.add(outcomes); err != nil || count.gaveUp != 3 || count.admitted[0] != 0 {
		t.Errorf("got %d giving up, %v admitted, error %v, want 3 giving up", count.gaveUp, count.admitted, err)
	}
}

func TestErrorOfAWayIsReturned(t *testing.T) {
	fault := errors.New("out of order")
	fails := Method{Name: "fails", Open: func(context.Context, Node, Limit) (Decider, error) {
		return decideFunc(func(context.Context, string) (Answer, error) { return Answer{}, fault }), nil
	}}
	_, err := Run(t.Context(), Options{
		Addr: redistest.Start(t).Addr, Nodes: 2, Trials: 2, Callers: []int{4}, RoundTrips: []time.Duration{0},
		Limit: Limit{Calls: testLimit, Window: time.Minute}, Patience: 10 * time.Second, Ways: []Method{fails},
	})
	if !errors.Is(err, fault) {
		t.Errorf("got %v, want the way's own error", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := Run(t.Context(), Options{Nodes: 0, Trials: -1, Callers: []int{0}, RoundTrips: []time.Duration{-1}})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	if lines := len(err.(interface{ Unwrap() []error }).Unwrap()); lines != 8 {
		t.Errorf("%d mistakes named, want all 8:\n%v", lines, err)
	}
}
