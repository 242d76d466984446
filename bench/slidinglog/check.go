package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/rueidis"
)

// epoch is a present-day instant in microseconds: large enough that a number
// formatted carelessly in Lua would lose digits.
const epoch = 1_794_705_047_542_946

// scenario is one random trace. Sizes are chosen so that every path of every
// script runs: logs that fit one read, logs that need probing, mixed costs.
// Windows are a minute or more: injected time runs ahead of the server's, and
// no key may expire in real time before the trace says so.
type scenario struct {
	name    string
	calls   int
	window  int64
	limit   int64
	maxCost int64
	gap     int64 // mean distance of two calls, microseconds
}

func scenarios() []scenario {
	return []scenario{
		{"unit costs, small", 3000, 60_000_000, 10, 1, 3_600_000},
		{"mixed costs, small", 3000, 60_000_000, 25, 7, 4_200_000},
		{"unit costs, probing", 4000, 60_000_000, 300, 1, 150_000},
		{"mixed costs, probing", 4000, 60_000_000, 2000, 12, 150_000},
		{"mixed costs, roomy", 4000, 60_000_000, 100_000, 12, 150_000},
		{"same instant", 3000, 60_000_000, 120, 3, 1},
	}
}

// coverage proves that a trace exercised what it is meant to exercise.
type coverage struct {
	Calls   int `json:"calls"`
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
	Never   int `json:"never"`
	Peeks   int `json:"peeks"`
	Back    int `json:"clock_steps_back"`
}

// check sends the same traces to every candidate and to the model and stops
// at the first difference.
func check(ctx context.Context, client rueidis.Client, all []candidate, seed uint64) (coverage, error) {
	var seen coverage
	for _, s := range scenarios() {
		calls, want := s.trace(seed, &seen)
		for _, c := range all {
			key := "pen:bench:check:" + c.file
			if err := client.Do(ctx, client.B().Del().Key(key).Build()).Error(); err != nil {
				return seen, fmt.Errorf("delete %s before the check: %w", key, err)
			}
			if err := compare(ctx, client, c, key, calls, want); err != nil {
				return seen, fmt.Errorf("trace %q, seed %d: %w", s.name, seed, err)
			}
		}
	}
	return seen, nil
}

func compare(ctx context.Context, client rueidis.Client, c candidate, key string, calls []call, want []answer) error {
	commands := make([]rueidis.Completed, len(calls))
	for i, q := range calls {
		commands[i] = c.command(client, key, q)
	}
	for i, r := range client.DoMulti(ctx, commands...) {
		got, err := parseAnswer(r)
		if err != nil {
			return fmt.Errorf("%s, call %d %+v: %w", c.name, i, calls[i], err)
		}
		if got != want[i] {
			return fmt.Errorf("%s differs from the model at call %d %+v: got %+v, want %+v",
				c.name, i, calls[i], got, want[i])
		}
	}
	return nil
}

func (s scenario) trace(seed uint64, seen *coverage) ([]call, []answer) {
	random := rand.New(rand.NewPCG(seed, uint64(s.limit)))
	var m model
	now := int64(epoch)
	calls, answers := make([]call, s.calls), make([]answer, s.calls)
	for i := range calls {
		q := call{now: now, window: s.window, limit: s.limit, cost: 1 + random.Int64N(s.maxCost)}
		switch random.IntN(40) {
		case 0:
			q.cost = 0
			seen.Peeks++
		case 1:
			q.cost = s.limit + 1
		case 2:
			q.cost = 1 + random.Int64N(s.limit) // waits for many entries to leave
		case 3:
			q.now -= random.Int64N(s.gap * 10)
			seen.Back++
		}
		a := m.decide(q)
		calls[i], answers[i] = q, a
		seen.count(a)
		switch jump := random.IntN(400); {
		case jump == 0:
			now += 2 * s.window // everything leaves
		case jump == 1:
			now += s.window / 2 // much leaves at once
		case jump < 50 && a.retry > 0:
			now = max(now, a.retry) // exactly on the promised instant
		case jump < 60 && a.retry > 0:
			now = max(now, a.retry-1) // and a microsecond too early
		default:
			now += random.Int64N(2 * s.gap)
		}
	}
	return calls, answers
}

func (c *coverage) count(a answer) {
	c.Calls++
	switch {
	case a.allowed:
		c.Allowed++
	case a.retry < 0:
		c.Never++
	default:
		c.Denied++
	}
}
