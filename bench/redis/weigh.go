package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// counters returns the contestants whose keys take the same space however much they are used.
func counters() []string {
	names := []string{remote.Headline, remote.OurCounter, remote.OurTwo, remote.OurThree}
	for _, c := range remote.Contestants() {
		if c.Role == report.Peer && c.Name != remote.FourTrips {
			names = append(names, c.Name)
		}
	}
	return names
}

// logs returns those that remember every request.
func logs() []string { return []string{remote.OurLog, remote.FourTrips} }

// logEntries is how many requests every log is filled with.
const logEntries = 100

// weighAll fills an empty server with each contestant's keys in turn.
func (b *bench) weighAll(ctx context.Context) (tables []report.Table, err error) {
	server, err := redistest.Launch(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	state, err := b.weights(ctx, server.Addr, "Redis memory per key", counters(), remote.RedisRate, b.keys, 1)
	if err != nil {
		return nil, err
	}
	some := b.keys[:min(len(b.keys), b.options.LogKeys)]
	log, err := b.weights(ctx, server.Addr, fmt.Sprintf("Redis memory per log of %d calls", logEntries), logs(), remote.FourTrips, some, logEntries)
	return []report.Table{state, log}, err
}

func (b *bench) weights(ctx context.Context, addr, title string, names []string, against string, keys []string, calls int) (report.Table, error) {
	t := report.Table{Title: title, Columns: []report.Column{
		{Name: "used_memory", Unit: "B/key", Better: report.Less, Against: against},
		{Name: "MEMORY USAGE", Unit: "B/key", Better: report.Less, Against: against},
	}}
	for _, name := range names {
		b.progress.Step("weigh %s", name)
		c, err := remote.Find(name)
		if err != nil {
			return t, err
		}
		row := report.Row{Name: c.Name, Role: c.Role}
		if row.Values, err = weigh(ctx, addr, c, keys, calls); err != nil {
			return t, fmt.Errorf("weigh %s: %w", name, err)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func weigh(ctx context.Context, addr string, c remote.Contestant, keys []string, calls int) ([]float64, error) {
	// A script stays in the server after its first run, so run it before the first measurement.
	if err := fill(ctx, addr, c, keys[:1], 1); err != nil {
		return nil, err
	}
	if _, err := redistest.Command(addr, "FLUSHALL", "SYNC"); err != nil {
		return nil, err
	}
	before, err := IdleMemory(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, addr, c, keys, calls); err != nil {
		return nil, err
	}
	after, err := IdleMemory(ctx, addr)
	if err != nil {
		return nil, err
	}
	mean, err := meanUsage(addr, len(keys))
	return []float64{(after - before) / float64(len(keys)), mean}, err
}

// fill connects, sends that many requests for each key, and disconnects.
func fill(ctx context.Context, addr string, c remote.Contestant, keys []string, calls int) error {
	limiter, err := c.Open(ctx, addr, remote.Roomy)
	if err != nil {
		return err
	}
	defer limiter.Close()
	for range calls {
		if err := Warm(ctx, limiter, keys); err != nil {
			return err
		}
	}
	return nil
}

// IdleMemory returns what the server has allocated, including its key tables, once it has noticed that its
// clients and their buffers are gone.
func IdleMemory(ctx context.Context, addr string) (float64, error) {
	for {
		clients, err := infoNumber(addr, "clients", "connected_clients")
		if err != nil {
			return 0, err
		}
		if clients == 1 { // our own connection
			return infoNumber(addr, "memory", "used_memory")
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait until %s has no clients: %w", addr, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// meanUsage asks Redis for the size of some random keys.
func meanUsage(addr string, keys int) (float64, error) {
	const samples = 200
	if size, err := redistest.Command(addr, "DBSIZE"); err != nil || size != strconv.Itoa(keys) {
		return 0, fmt.Errorf("the server holds %s keys, want %d (%v): some have expired, or were never written", size, keys, err)
	}
	sum := 0.0
	for range samples {
		key, err := redistest.Command(addr, "RANDOMKEY")
		if err != nil {
			return 0, err
		}
		text, err := redistest.Command(addr, "MEMORY", "USAGE", key, "SAMPLES", "0")
		if err != nil {
			return 0, err
		}
		bytes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("MEMORY USAGE of %q: %w", key, err)
		}
		sum += bytes
	}
	return sum / samples, nil
}
