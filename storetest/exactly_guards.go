package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A storm is many concurrent clients that exercise the guards, on the real clock.
type storm struct {
	name string
	able bool // needs more than decisions
	once func(nodes []storage.Store, trial int) error
}

var storms = []storm{
	{"one id", false, oneIDAtOnce},
	{"every id four times", false, fourTimesAtOnce},
	{"one id among permits", true, permitsAtOnce},
	{"strikes", false, strikesAtOnce},
	{"releases", true, releasesAtOnce},
	{"leases come and go", true, leasesAtOnce},
}

func (s storm) trials(nodes []storage.Store, n int) error {
	return trials(n, 8, func(i int) error {
		for {
			err := s.once(nodes, i)
			if err == nil {
				return nil
			}
			if !errors.Is(err, errTornWindow) {
				return fmt.Errorf("trial %d: %w", i, err)
			}
		}
	})
}

// atOnce starts all clients at the same time.
func atOnce(callers int, call func(i int) error) error {
	errs := make([]error, callers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// takeAtOnce makes every client ask for its own group.
func takeAtOnce(nodes []storage.Store, callers int, groupOf func(i int) storage.Group) ([]storage.Outcome, error) {
	outs := make([]storage.Outcome, callers)
	err := atOnce(callers, func(i int) error {
		t := &storage.Ticket{Nonce: uint64(i + 1), Groups: []storage.Group{groupOf(i)}}
		return nodes[i%len(nodes)].Take(context.Background(), t, &outs[i])
	})
	return outs, err
}

// perHour returns a meter that passes count in any hour.
func perHour(count int64) *algorithm.Meter {
	return algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: time.Hour}.MustCompile()
}

func oneIDAtOnce(nodes []storage.Store, trial int) error {
	return repeatsAtOnce(nodes, trial, 50, func(int) int { return 0 })
}

func fourTimesAtOnce(nodes []storage.Store, trial int) error {
	return repeatsAtOnce(nodes, trial, 80, func(i int) int { return i % 20 })
}

// repeatsAtOnce: exactly the limit is charged, and at most as many duplicates pass as the budget allows.
// With a single id there are always enough duplicates to exhaust the budget.
func repeatsAtOnce(nodes []storage.Store, trial, callers int, id func(i int) int) error {
	const limit = 10
	budget := int64(1 + trial%4)
	g := group(perHour(limit), 1)
	g.Subject = newSubject()
	g.Dedup = repeats(algorithm.MaxDedupTTL, []int64{1, 2, algorithm.MaxReplays}[trial%3], budget, algorithm.MaxWindow)
	outs, err := takeAtOnce(nodes, callers, func(i int) storage.Group {
		mine := g
		mine.Call = hasher.Call(fmt.Sprint(id(i)))
		return mine
	})
	if err != nil {
		return err
	}
	if isTorn(g.Dedup.Budget, outs) {
		return errTornWindow
	}
	var charged, repeated int64
	for i := range outs {
		switch {
		case outs[i].Groups[0].Replay:
			repeated++
		case outs[i].Allowed:
			charged++
		}
	}
	if charged != limit || repeated > budget || id(0) == id(callers-1) && repeated != budget {
		return fmt.Errorf("%d were charged and %d repeated, limit %d and budget %d", charged, repeated, limit, budget)
	}
	return nil
}

// permitsAtOnce: one id, many requests, and no more run at the same time than there are permits.
func permitsAtOnce(nodes []storage.Store, trial int) error {
	permits := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: int64(1 + trial%4), Window: time.Hour}.MustCompile()
	g := group(permits, 1)
	g.Subject, g.Call = newSubject(), hasher.Call("one")
	g.Dedup = repeats(algorithm.MaxDedupTTL, algorithm.MaxReplays, 1000, algorithm.MaxWindow)
	outs, err := takeAtOnce(nodes, 20, func(int) storage.Group { return g })
	if err != nil {
		return err
	}
	var running, originals int64
	for i := range outs {
		if o := &outs[i].Groups[0]; o.Taken {
			running++
			if !o.Replay {
				originals++
			}
		}
	}
	if running != permits.Count || originals != 1 {
		return fmt.Errorf("%d run, %d of them originals, with %d permits and one id", running, originals, permits.Count)
	}
	return nil
}

// strikesAtOnce: every denial is a strike, so the last one bans, and only that one.
func strikesAtOnce(nodes []storage.Store, trial int) error {
	const limit, callers = 10, 50
	after := int64(callers - limit + trial%2) // every other time it is one strike short
	g := group(perHour(limit), 1)
	g.Subject = newSubject()
	g.Penalty = must(algorithm.PenaltyTerms{After: after, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile())
	outs, err := takeAtOnce(nodes, callers, func(int) storage.Group { return g })
	if err != nil {
		return err
	}
	passed, bans := 0, 0
	var most int64
	for i := range outs {
		if outs[i].Allowed {
			passed++
		}
		if outs[i].Groups[0].BannedUntil != 0 {
			bans++
		}
		most = max(most, outs[i].Groups[0].Strikes)
	}
	if passed != limit || bans != 1-trial%2 || most != callers-limit-int64(bans) {
		return fmt.Errorf("%d passed, %d were told of a ban after %d strikes, the most was %d", passed, bans, after, most)
	}
	return nil
}

// releasesAtOnce: what all clients release at once is returned once.
func releasesAtOnce(nodes []storage.Store, trial int) error {
	const callers = 30
	m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Hour}.MustCompile()
	if trial%2 == 1 {
		m = algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 10, Window: algorithm.MaxWindow}.MustCompile()
	}
	who := newSubject()
	reserve := func(nonce uint64, cost int64) (storage.Outcome, error) {
		g := group(m, cost)
		g.Subject, g.Reserve = who, time.Hour
		var out storage.Outcome
		err := nodes[0].Take(context.Background(), &storage.Ticket{Nonce: nonce, Groups: []storage.Group{g}}, &out)
		return out, err
	}
	for nonce := range uint64(2) {
		if _, err := reserve(nonce+1, 4); err != nil {
			return err
		}
	}
	var first atomic.Int64
	err := atOnce(callers, func(i int) error {
		var out storage.SettleOutcome
		s := storage.Settlement{Subject: who, Nonce: 1, Verb: storage.Release, Charges: group(m, 0).Charges}
		err := nodes[i%len(nodes)].(storage.Settler).Settle(context.Background(), &s, &out)
		if !out.Again {
			first.Add(1)
		}
		return err
	})
	if err != nil {
		return err
	}
	out, err := reserve(3, 1)
	if err != nil {
		return err
	}
	if used := out.Decisions[0].Used; first.Load() != 1 || used != 5 {
		return fmt.Errorf("%v: of %d releases %d were the first, and %d are used, want 5", m, callers, first.Load(), used)
	}
	return nil
}

// leasesAtOnce: clients take a permit and release it repeatedly. There are never more holders than permits,
// and in the end there are none.
func leasesAtOnce(nodes []storage.Store, trial int) error {
	const callers, rounds = 12, 8
	m := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: int64(1 + trial%4), Window: time.Hour}.MustCompile()
	g := group(m, 1)
	g.Subject = newSubject()
	var holding atomic.Int64
	err := atOnce(callers, func(i int) error {
		var out storage.Outcome
		var back storage.SettleOutcome
		for round := range rounds {
			node := nodes[(i+round)%len(nodes)]
			t := &storage.Ticket{Nonce: uint64(1 + i*rounds + round), Groups: []storage.Group{g}}
			if err := node.Take(context.Background(), t, &out); err != nil {
				return err
			}
			if !out.Allowed {
				continue
			}
			if n := holding.Add(1); n > m.Count {
				return fmt.Errorf("%d hold a lease, limit %d", n, m.Count)
			}
			runtime.Gosched()
			holding.Add(-1)
			s := &storage.Settlement{Subject: g.Subject, Nonce: t.Nonce, Verb: storage.Release, Charges: g.Charges}
			if err := node.(storage.Settler).Settle(context.Background(), s, &back); err != nil {
				return err
			}
			if !back.Allowed || back.Again {
				return fmt.Errorf("a lease that was held is released with %+v", back)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	peek := group(m, 0)
	peek.Subject = g.Subject
	var out storage.Outcome
	if err := nodes[0].Take(context.Background(), &storage.Ticket{Groups: []storage.Group{peek}}, &out); err != nil {
		return err
	}
	if out.Decisions[0].Used != 0 {
		return fmt.Errorf("all were released, and %d are held", out.Decisions[0].Used)
	}
	return nil
}
