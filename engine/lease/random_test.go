package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// Tickets of all kinds, on clocks that also step back: outcomes are valid, and what the store was charged is
// what requests report to have taken, or was lost as leased quota.
func TestRandomTickets(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	for seed := range uint64(20) {
		if err := playTickets(t, rand.New(rand.NewPCG(seed, 11))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func playTickets(t *testing.T, r *rand.Rand) error {
	shared := &register{Store: storetest.NewModel(), everybody: true, charged: map[penstock.Instant]int64{}}
	nodes := []*Store{around(t, shared), around(t, shared)}
	cast := [...]storage.Subject{stranger(), stranger(), stranger(), stranger()}
	meters := []*algorithm.Meter{
		perSecond(2000),
		penstock.Limit{Algorithm: penstock.FixedWindow, Count: 400, Period: penstock.Hour}.MustCompile(),
		penstock.Limit{Algorithm: penstock.TokenBucket, Count: 3000, Window: time.Minute}.MustCompile(),
		penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 500, Window: time.Second}.MustCompile(),
		penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 100, Window: time.Second}.MustCompile(),
	}
	var taken int64
	now := monday
	for i := range 3000 {
		var groups []storage.Group
		for k := range cast {
			if r.IntN(2) == 0 {
				g := leased(cast[k], 1+r.Int64N(2)*r.Int64N(3), meters[k], meters[k+1])
				g.Leased, g.Alone = r.IntN(5) > 0, r.IntN(5) == 0
				g.Charges = g.Charges[:1+r.IntN(2)]
				groups = append(groups, g)
			}
		}
		if len(groups) == 0 {
			continue
		}
		out := take(t, nodes[r.IntN(len(nodes))], now, groups...)
		if err := sound(groups, out); err != nil {
			return fmt.Errorf("ticket %d: %w: %+v for %+v", i, err, out, groups)
		}
		for k := range groups {
			if out.Groups[k].Taken {
				taken += groups[k].Charges[0].Cost
			}
		}
		switch r.IntN(20) {
		case 0:
			now -= penstock.Instant(r.IntN(20_000))
		case 1, 2, 3:
			now += penstock.Instant(r.IntN(10_000))
		}
	}
	lost := int64(0)
	for _, node := range nodes {
		stats := node.Stats()
		lost += stats.Expired + node.held()
		if stats.Leased < 100 {
			return fmt.Errorf("hardly anything was leased: %+v", stats)
		}
	}
	if shared.total() != taken+lost {
		return fmt.Errorf("%d were charged; %d were taken and %d lost", shared.total(), taken, lost)
	}
	return nil
}

// sound checks what holds for every outcome.
func sound(groups []storage.Group, out *storage.Outcome) error {
	if len(out.Groups) != len(groups) {
		return fmt.Errorf("%d groups were decided of %d", len(out.Groups), len(groups))
	}
	allowed, decisions := true, out.Decisions
	for i, g := range groups {
		o, all := out.Groups[i], true
		for _, c := range g.Charges {
			if len(decisions) == 0 || decisions[0].Limit != c.Meter.Capacity {
				return fmt.Errorf("group %d: its decisions are somewhere else", i)
			}
			d := decisions[0]
			decisions, all = decisions[1:], all && d.Allowed
			if receipt := (d.Receipt != algorithm.Receipt{}); receipt != o.Taken || receipt && d.Receipt.Cost != c.Cost {
				return fmt.Errorf("group %d: taken is %v, with %+v", i, o.Taken, d.Receipt)
			}
		}
		if o.Allowed != all || o.Taken != (all && (g.Alone || out.Allowed)) {
			return fmt.Errorf("group %d: allowed %v, taken %v; all its limits pass is %v", i, o.Allowed, o.Taken, all)
		}
		allowed = allowed && (all || g.Alone)
	}
	if allowed != out.Allowed || len(decisions) > 0 {
		return fmt.Errorf("allowed is %v, want %v; %d decisions too many", out.Allowed, allowed, len(decisions))
	}
	return nil
}
