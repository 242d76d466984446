package race

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is the result of a whole campaign.
type Report struct {
	Server   string // version, as the server reports it
	Limit    int
	WindowMS int64
	Nodes    int
	Trials   int
	Networks []Network
	Cells    []Cell
}

// Network is one network delay, as configured and as measured.
type Network struct {
	AddedUS    int64
	MeasuredUS int64 // median idle PING
}

// Cell is one way under one load. Every number covers all its trials.
type Cell struct {
	Way     string
	AddedUS int64 // round trip added by the proxies
	Callers int

	Admitted      Spread
	OverAdmitted  Spread // above the limit
	FalselyDenied Spread // below what the limit and the clients allow
	Logged        Spread // members in the log afterwards; all zero if it is kept elsewhere

	TripsPerCall    float64
	RetriesPerCall  float64
	CommandsPerCall float64 // as counted by the server, including those in scripts
	GaveUp          int     // requests that timed out
	P50US           int64
	P99US           int64
}

// Spread is how a count varies between trials.
type Spread struct {
	Min    int
	Median int
	Max    int
}

func spreadOf(counts []int) Spread {
	sorted := slices.Sorted(slices.Values(counts))
	return Spread{Min: sorted[0], Median: quantile(sorted, 0.5), Max: sorted[len(sorted)-1]}
}

// quantile returns the nearest-rank quantile of sorted, which must not be empty.
func quantile[T cmp.Ordered](sorted []T, q float64) T {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// tally collects the trials of one cell.
type tally struct {
	limit, callers   int
	admitted, logged []int
	took             []time.Duration
	trips, retries   int
	gaveUp           int
}

// add adds one trial. The error is the first that is not a timeout of a client.
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
