package latency

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/remote"
)

func TestMeasureFillsEveryCell(t *testing.T) {
	// A busy machine keeps up with every rate that it is given time for.
	s, err := Measure(t.Context(), Options{Keys: 100, Cell: 20 * time.Millisecond, Calls: 3, Repeat: 1, KeptUp: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 2 {
		t.Fatalf("%d tables, want the schedule and the networks", len(s.Tables))
	}
	for _, table := range s.Tables {
		for _, row := range table.Rows {
			for i, v := range row.Values {
				if !(v > 0) {
					t.Errorf("%s: %s, %s: %v, want more than 0", table.Title, row.Name, table.Columns[i].Name, v)
				}
			}
		}
	}
	if len(s.Goals) != 4 {
		t.Errorf("%d goals, want 4", len(s.Goals))
	}
	// However fast the rest is, no response arrives before the round trips of these networks are over.
	for i, roundTrip := range networks() {
		for name, trips := range map[string]time.Duration{remote.Headline: 1, remote.OurLog: 1, remote.FourTrips: 4} {
			const precision = 0.99 // of the histogram
			least := precision * (trips * roundTrip).Seconds() * 1e3
			if took := s.Tables[1].Value(name, i); took < least {
				t.Errorf("%s, +%v: %v ms, want at least %v", name, roundTrip, took, least)
			}
		}
	}
}

// gate blocks every request until enough have arrived. The test is about the load.
type gate struct {
	missing atomic.Int64
	open    chan struct{}
}

func (g *gate) Caller() remote.TakeFunc {
	return func(ctx context.Context, _ string) (bool, error) {
		if g.missing.Add(-1) == 0 {
			close(g.open)
		}
		select {
		case <-g.open:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
func (g *gate) Warm(context.Context, string) error { return nil }
func (g *gate) Close()                             {}

// A server that stalls delays every request that is due meanwhile. A load that waits for its responses would send
// one request here, and wait forever.
func TestCallsDoNotWaitForThoseBefore(t *testing.T) {
	const calls, gap = 100, time.Millisecond
	g := &gate{open: make(chan struct{})}
	g.missing.Store(calls)
	loop := OpenLoop{PerSecond: float64(time.Second / gap), Duration: calls * gap, Keys: redis.Keys(1)}
	w, err := loop.Run(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	const counted = calls - calls/10
	if w.Latency.TotalCount() != counted || w.Late.TotalCount() != counted {
		t.Errorf("%d calls begun, %d answered, want %d", w.Late.TotalCount(), w.Latency.TotalCount(), counted)
	}
	// The first counted request was due before all others, and was answered after the last was due.
	if longest := time.Duration(w.Latency.Max()) * time.Microsecond; longest < (counted-1)*gap {
		t.Errorf("the first call waited %v, want at least the %v of the schedule", longest, (counted-1)*gap)
	}
}

type broken struct{ err error }

func (b broken) Caller() remote.TakeFunc {
	return func(context.Context, string) (bool, error) { return false, b.err }
}
func (b broken) Warm(context.Context, string) error { return b.err }
func (b broken) Close()                             {}

func TestOpenLoopFailsWithTheLimiter(t *testing.T) {
	cause := errors.New("broken")
	loop := OpenLoop{PerSecond: 1000, Duration: 50 * time.Millisecond, Keys: redis.Keys(1)}
	if _, err := loop.Run(t.Context(), broken{cause}); !errors.Is(err, cause) {
		t.Errorf("got %v, want the limiter's error", err)
	}
	if _, err := loop.Run(t.Context(), broken{}); err == nil {
		t.Error("denied calls were counted as a benchmark of passing ones")
	}
}
