package latency

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock/bench/network"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/bench/report"
)

// networks returns the round trips added to that of the loopback.
func networks() []time.Duration { return []time.Duration{time.Millisecond, 2 * time.Millisecond} }

// travellers returns the contestants measured over them: the exact log in one script and in four round trips, and
// our cheapest limit.
func travellers() []string { return []string{remote.Headline, remote.OurLog, remote.FourTrips} }

// companions is how many clients send at once: few, so that they wait for the network.
const companions = 4

func overNetworks(ctx context.Context, addr string, o Options, progress *report.Progress, s *report.Section) error {
	t := report.Table{Title: "Median latency with the network's round trip made longer"}
	samples := report.Samples{}
	for _, roundTrip := range networks() {
		t.Columns = append(t.Columns, report.Column{Name: fmt.Sprintf("+%v", roundTrip), Unit: "ms", Better: report.Less, Against: remote.FourTrips})
	}
	for range o.Repeat {
		for _, roundTrip := range networks() {
			for _, name := range travellers() {
				progress.Step("+%v: %s", roundTrip, name)
				median, err := travel(ctx, addr, roundTrip, name, o)
				if err != nil {
					return fmt.Errorf("%s, +%v: %w", name, roundTrip, err)
				}
				samples.Add(name, fmt.Sprintf("+%v", roundTrip), median)
			}
		}
	}
	for _, name := range travellers() {
		c, err := remote.Find(name)
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, samples.Row(name, c.Role, "", t.Columns))
	}
	for i, roundTrip := range networks() {
		lower := 100 * (1 - t.Value(remote.OurLog, i)/t.Value(remote.FourTrips, i))
		s.Goals = append(s.Goals, report.Goal{
			Name:  fmt.Sprintf("latency: one script's p50 below four round trips', both exact logs, +%v", roundTrip),
			Bound: report.AtLeast, Want: 70, Measured: lower, Unit: " %",
		})
	}
	s.Tables = append(s.Tables, t)
	return nil
}

// travel returns the median latency, in ms, over its own network.
func travel(ctx context.Context, addr string, roundTrip time.Duration, name string, o Options) (float64, error) {
	proxy, err := network.NewDelayProxy(addr, roundTrip)
	if err != nil {
		return 0, err
	}
	defer proxy.Close()
	c, err := remote.Find(name)
	if err != nil {
		return 0, err
	}
	limiter, err := c.Open(ctx, proxy.Addr(), remote.Roomy)
	if err != nil {
		return 0, err
	}
	defer limiter.Close()
	if err := limiter.Warm(ctx, "first"); err != nil { // connects, and loads the script into the server
		return 0, err
	}
	keys := redis.Keys(o.Keys)
	total := redis.NewHistogram()
	var failed error
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range companions {
		all.Go(func() {
			h, err := journey(ctx, limiter.Caller(), keys, i*len(keys)/companions, o.Calls)
			mu.Lock()
			defer mu.Unlock()
			total.Merge(h)
			if err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	return float64(total.ValueAtPercentile(50)) / 1e3, failed
}

func journey(ctx context.Context, take remote.TakeFunc, keys []string, from, calls int) (*hdrhistogram.Histogram, error) {
	h := redis.NewHistogram()
	for i := range calls {
		key := keys[(from+i)%len(keys)]
		start := time.Now()
		if _, err := take(ctx, key); err != nil {
			return h, fmt.Errorf("charge %q: %w", key, err)
		}
		if err := note(h, time.Since(start)); err != nil {
			return h, err
		}
	}
	return h, nil
}
