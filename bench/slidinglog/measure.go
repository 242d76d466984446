package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

const (
	// window is longer than a run takes, so that no key expires by itself
	// while injected time moves at its own pace.
	window = int64(3_600_000_000)
	// batch is how many calls are written before answers are awaited: the
	// server never waits for the client.
	batch = 500
)

// mix is a steady state to measure in.
type mix string

const (
	mixFull   mix = "full"   // limit = entries: one leaves, one is admitted
	mixRoomy  mix = "roomy"  // limit = 2 x entries: the same, with room to spare
	mixDenied mix = "denied" // limit = entries, none leaves: every call is denied
	mixCostly mix = "costly" // denied, 3/7 of the entries have left, cost 10/13 of the limit: the longest searches
)

func mixes() []mix { return []mix{mixFull, mixRoomy, mixDenied, mixCostly} }

// cell is one log under one mix; it keeps its state from repeat to repeat.
type cell struct {
	c       candidate
	size    int
	mix     mix
	key     string
	recent  []int64 // the instants in the log, a ring: the oldest is at next
	next    int
	costs   []float64 // Redis CPU µs per decision, one per repeat
	mean    float64   // bytes of the key, over the samples
	peak    int64
	samples int
}

func newCell(c candidate, size int, m mix) *cell {
	return &cell{c: c, size: size, mix: m, key: fmt.Sprintf("pen:bench:%s:%s:%d", c.file, m, size)}
}

// admits says whether this mix's calls are allowed.
func (m mix) admits() bool { return m == mixFull || m == mixRoomy }

func (e *cell) limit() int64 {
	if e.mix == mixRoomy {
		return 2 * int64(e.size)
	}
	return int64(e.size)
}

// fill admits size calls at irregular distances spread over one window.
func (e *cell) fill(ctx context.Context, client rueidis.Client, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(e.size)))
	gap := float64(window) / float64(e.size) / 2 // half: the last must stay inside the window of the first
	now := int64(epoch)
	calls := make([]call, e.size)
	for i := range calls {
		now += 1 + int64(min(random.ExpFloat64(), 6)*gap)
		calls[i] = e.at(now)
		e.recent = append(e.recent, now)
	}
	if now-e.recent[0] >= window {
		return fmt.Errorf("fill %s: %d entries take %d µs, more than the window %d", e.key, e.size, now-e.recent[0], window)
	}
	return e.send(ctx, client, calls, true)
}

func (e *cell) at(now int64) call {
	return call{now: now, window: window, limit: e.limit(), cost: 1}
}

// calls continues the steady state.
func (e *cell) calls(n int) []call {
	out := make([]call, n)
	if !e.mix.admits() { // nothing has moved since the fill: the ring begins at 0
		q := e.at(e.recent[e.size-1])
		if e.mix == mixCostly {
			// No power of two in either fraction: a bisection must not be
			// lucky with its first probe.
			if left := 3 * e.size / 7; left > 0 {
				q.now = max(q.now, e.recent[left-1]+window)
			}
			q.cost = (10*int64(e.size) + 12) / 13
		}
		for i := range out {
			out[i] = q
		}
		return out
	}
	for i := range out {
		now := e.recent[e.next] + window // the very instant the oldest leaves
		e.recent[e.next] = now
		e.next = (e.next + 1) % e.size
		out[i] = e.at(now)
	}
	return out
}

// send runs calls in pipelined batches; an answer other than expected means
// that something else than the intended state would be measured.
func (e *cell) send(ctx context.Context, client rueidis.Client, calls []call, allowed bool) error {
	commands := make([]rueidis.Completed, 0, batch)
	for len(calls) > 0 {
		part := calls[:min(batch, len(calls))]
		calls = calls[len(part):]
		commands = commands[:0]
		for _, q := range part {
			commands = append(commands, e.c.command(client, e.key, q))
		}
		for i, r := range client.DoMulti(ctx, commands...) {
			a, err := parseAnswer(r)
			if err != nil {
				return fmt.Errorf("%s, %s, %d entries: %w", e.c.name, e.mix, e.size, err)
			}
			if a.allowed != allowed && e.c.file != floor().file {
				return fmt.Errorf("%s, %s, %d entries: %+v answered %+v, want allowed=%t",
					e.c.name, e.mix, e.size, part[i], a, allowed)
			}
		}
	}
	return nil
}

// measure runs n decisions and notes what they cost the server.
func (e *cell) measure(ctx context.Context, client rueidis.Client, n int) error {
	calls := e.calls(n)
	before, err := serverCPU(ctx, client)
	if err != nil {
		return err
	}
	if err := e.send(ctx, client, calls, e.mix.admits()); err != nil {
		return err
	}
	after, err := serverCPU(ctx, client)
	if err != nil {
		return err
	}
	e.costs = append(e.costs, (after-before)*1e6/float64(n))
	return nil
}

// weigh samples the key's memory over two full turnovers of the log, since a
// structure that tidies up lazily is not equally large at all times.
func (e *cell) weigh(ctx context.Context, client rueidis.Client) error {
	const points = 50
	for range points {
		if err := e.send(ctx, client, e.calls(max(1, 2*e.size/points)), e.mix.admits()); err != nil {
			return err
		}
		bytes, err := client.Do(ctx, client.B().MemoryUsage().Key(e.key).Samples(0).Build()).AsInt64()
		if err != nil {
			return fmt.Errorf("MEMORY USAGE %s: %w", e.key, err)
		}
		e.samples++
		e.mean += (float64(bytes) - e.mean) / float64(e.samples)
		e.peak = max(e.peak, bytes)
	}
	return nil
}

// serverCPU is the CPU time, in seconds, the server has used so far. Unlike
// elapsed time it does not grow when another process has the core.
func serverCPU(ctx context.Context, client rueidis.Client) (float64, error) {
	info, err := client.Do(ctx, client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("INFO cpu: %w", err)
	}
	total, found := 0.0, 0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu, %s %q: %w", name, value, err)
		}
		total += seconds
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("INFO cpu names %d of used_cpu_user and used_cpu_sys, want both", found)
	}
	return total, nil
}
