package lease

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Whatever requests arrive where and when, no limit is exceeded and no quota is lost or invented.
func TestBounds(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	const seeds = 30
	for _, l := range traced {
		l.Count = 100
		t.Run(l.String(), func(t *testing.T) {
			var byPermits, calls int64
			for seed := range uint64(seeds) {
				x := newTrace(t, seed, l)
				if err := x.play(t, nil); err != nil {
					t.Fatalf("seed %d: %v: %v", seed, x.meter, err)
				}
				for _, node := range x.nodes {
					byPermits += node.Stats().Leased
				}
				calls += int64(len(x.passed))
			}
			if byPermits*10 < calls {
				t.Errorf("only %d of %d passed by permits: nothing was proved", byPermits, calls)
			}
		})
	}
}

// The bounds must be able to fail.
func TestSabotageIsNoticed(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	eachGrant := func(do func(p *pool, g *grant)) func(*Store, *storage.Outcome) {
		return func(s *Store, _ *storage.Outcome) {
			s.eachPool(func(p *pool) {
				for i := range p.grants {
					if p.grants[i].number != 0 {
						do(p, &p.grants[i])
					}
				}
			})
		}
	}
	outlive := eachGrant(func(_ *pool, g *grant) { g.until = algorithm.MaxInstant })
	twice := eachGrant(func(_ *pool, g *grant) { g.left = g.size })
	for _, sabotage := range []struct {
		name       string
		limit      penstock.Limit
		boundsOnly bool
		do         func(*Store, *storage.Outcome)
	}{
		{"permits outlive their window", traced[0], false, eachGrant(func(_ *pool, g *grant) { g.until = g.sent + second })},
		{"too much passes in a window by permits of another", traced[0], true, outlive},
		{"permits live forever", traced[3], false, outlive},
		{"permits are spent twice", traced[3], false, twice},
		{"too much passes in a window", traced[0], true, twice},
		{"too much passes in a period", traced[2], true, twice},
		{"too much passes a counter", traced[3], true, twice},
		{"too much passes a bucket", traced[5], true, twice},
		{"a denied call keeps its permits", traced[1], false, func(s *Store, out *storage.Outcome) {
			if !out.Allowed && out.Decisions[0].Allowed {
				eachGrant(func(_ *pool, g *grant) { g.left = max(0, g.left-1) })(s, out)
			}
		}},
		{"an allowed call gives its permits back", traced[1], false, func(s *Store, out *storage.Outcome) {
			if out.Allowed && out.Decisions[0].Receipt.At != out.Now {
				eachGrant(func(_ *pool, g *grant) { g.left++ })(s, out)
			}
		}},
	} {
		t.Run(sabotage.name, func(t *testing.T) {
			for seed := range uint64(12) {
				x := newTrace(t, seed, sabotage.limit)
				x.boundsOnly = sabotage.boundsOnly
				if err := x.play(t, sabotage.do); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
