package race

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is a whole campaign.
type Report struct {
	Server   string // version, as the server tells it
	Limit    int
	WindowMS int64
	Nodes    int
	Trials   int
	Networks []Network
	Cells    []Cell
}

// Network is one wire length, as asked for and as found.
type Network struct {
	AddedUS    int64
	MeasuredUS int64 // median idle PING
}

// Cell is one way under one load: every number is over all its trials.
type Cell struct {
	Way     string
	AddedUS int64 // round trip added by the proxies
	Callers int

	Admitted      Spread
	OverAdmitted  Spread // above the limit
	FalselyDenied Spread // below what the limit and the callers allow
	Logged        Spread // members in the log afterwards; all zero if kept elsewhere

	TripsPerCall    float64
	RetriesPerCall  float64
	CommandsPerCall float64 // as the server counted, inside scripts too
	GaveUp          int     // calls that ran out of time
	P50US           int64
	P99US           int64
}

// Spread is how a count differed between trials.
type Spread struct {
	Min    int
	Median int
	Max    int
}

func spreadOf(counts []int) Spread {
	sorted := slices.Sorted(slices.Values(counts))
	return Spread{Min: sorted[0], Median: quantile(sorted, 0.5), Max: sorted[len(sorted)-1]}
}

// quantile is the nearest-rank quantile of sorted, which must not be empty.
func quantile[T cmp.Ordered](sorted []T, q float64) T {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// tally gathers the trials of one cell.
type tally struct {
	limit, callers   int
	admitted, logged []int
	took             []time.Duration
	trips, retries   int
	gaveUp           int
}

// add takes one trial; the error is the first that is not a caller out of time.
func (t *tally) add(outcomes []outcome) error {
	admitted := 0
	for _, o := range outcomes {
		if o.err != nil && !gaveUp(o.err) {
			return o.err
		}
		if o.err != nil {
			t.gaveUp++
		} else if o.Allowed {
			admitted++
		}
		t.trips += o.Trips
		t.retries += o.Retries
		t.took = append(t.took, o.took)
	}
	t.admitted = append(t.admitted, admitted)
	return nil
}

func (t *tally) cell(way string, added time.Duration, commands int) Cell {
	slices.Sort(t.took)
	calls := float64(len(t.took))
	due := min(t.limit, t.callers)
	over, denied := make([]int, len(t.admitted)), make([]int, len(t.admitted))
	for i, n := range t.admitted {
		over[i], denied[i] = max(0, n-t.limit), max(0, due-n)
	}
	return Cell{
		Way: way, AddedUS: added.Microseconds(), Callers: t.callers,
		Admitted: spreadOf(t.admitted), OverAdmitted: spreadOf(over), FalselyDenied: spreadOf(denied), Logged: spreadOf(t.logged),
		TripsPerCall: float64(t.trips) / calls, RetriesPerCall: float64(t.retries) / calls, CommandsPerCall: float64(commands) / calls,
		GaveUp: t.gaveUp,
		P50US:  quantile(t.took, 0.5).Microseconds(), P99US: quantile(t.took, 0.99).Microseconds(),
	}
}
