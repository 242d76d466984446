package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A distantStore has another clock than this node, and something may happen while its answer is on the way.
type distantStore struct {
	*storetest.Model
	skew  time.Duration
	onWay func(lease bool) // whether the ticket takes one
}

func (d *distantStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	there := *t
	there.Now = penstock.InstantOf(time.Now().Add(d.skew))
	err := d.Model.Take(ctx, &there, out)
	if d.onWay != nil {
		d.onWay(t.Groups[len(t.Groups)-1].Alone)
	}
	return err
}

// warm sends requests by the node's own clock until it holds leased quota.
func warm(t testing.TB, s *Store, g storage.Group) {
	t.Helper()
	for range 1000 {
		take(t, s, 0, g)
		if s.held() > 0 {
			return
		}
	}
	t.Fatal("no permits after 1000 calls")
}

func counterPerSecond(count int64) *algorithm.Meter {
	return penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: count, Window: time.Second}.MustCompile()
}

// By the clock of this node quota lives for ℓ after the ticket was sent, not after the answer. Quota of windows
// alone lives for a second.
func TestPermitsEndAfterSending(t *testing.T) {
	perMinute := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1000, Window: time.Minute}.MustCompile()
	for _, test := range []struct {
		name   string
		meters []*algorithm.Meter
		life   time.Duration
	}{
		{"counter", []*algorithm.Meter{counterPerSecond(1000)}, 10 * time.Millisecond},
		{"window", []*algorithm.Meter{perMinute}, time.Second},
		{"both", []*algorithm.Meter{perMinute, counterPerSecond(1000)}, 10 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := &failing{Store: &distantStore{Model: storetest.NewModel(), onWay: func(lease bool) {
				if lease {
					time.Sleep(6 * time.Millisecond)
				}
			}}}
			s, g := around(t, inner), leased(stranger(), 1, test.meters...)
			warm(t, s, g)
			inner.down = true // so only leases can decide, and there will be no more
			for _, step := range []struct {
				after time.Duration
				want  error
			}{{0, nil}, {test.life - 6*time.Millisecond - time.Microsecond, nil}, {time.Microsecond, penstock.ErrUnavailable}} {
				time.Sleep(step.after)
				var out storage.Outcome
				err := s.Take(t.Context(), &storage.Ticket{Groups: []storage.Group{g}}, &out)
				if !errors.Is(err, step.want) {
					t.Errorf("%s: after %v more: %v, want %v", test.name, step.after, err, step.want)
				}
			}
		})
	}
}

// Whatever its clock says, a node's quota ends with the store's window.
func TestPermitsEndWithTheStoresWindow(t *testing.T) {
	for _, skew := range []time.Duration{0, 7 * time.Hour, -333 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			inner := &distantStore{Model: storetest.NewModel(), skew: skew}
			s, g := around(t, inner), leased(stranger(), 1, perSecond(1000))
			there := time.Now().Add(skew)
			time.Sleep(there.Truncate(time.Second).Add(time.Second - 2*time.Millisecond).Sub(there))
			warm(t, s, g) // two milliseconds before the end
			time.Sleep(1500 * time.Microsecond)
			out := take(t, s, 0, g)
			if s.Stats().Leased == 0 || out.Now != penstock.InstantOf(time.Now().Add(skew)) {
				t.Errorf("skew %v: within the window: %+v, %+v", skew, s.Stats(), out)
			}
			time.Sleep(500 * time.Microsecond)
			if out := take(t, s, 0, g); out.Decisions[0].Used != 1 {
				t.Errorf("skew %v: the first of the next window is told %+v", skew, out.Decisions[0])
			}
		})
	}
}

// Quota that has expired when it arrives is not spent, and the next lease is not taken at once.
func TestStoreTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := 0
		inner := &distantStore{Model: storetest.NewModel(), onWay: func(lease bool) {
			if lease {
				leases++
				time.Sleep(10 * time.Millisecond)
			}
		}}
		s, g := around(t, inner), leased(stranger(), 1, counterPerSecond(10_000))
		for range 40 {
			take(t, s, 0, g)
		}
		if stats := s.Stats(); leases != 1 || stats.Leased != 0 || stats.Permits == 0 || stats.Expired != stats.Permits {
			t.Errorf("%d leases; %+v", leases, stats)
		}
	})
}

// A lease that was charged before a reset is not spent after it.
func TestResetWhileALeaseIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &distantStore{Model: storetest.NewModel()}
		s, g := around(t, inner), leased(stranger(), 1, perSecond(1000))
		reset := false
		inner.onWay = func(lease bool) {
			if !lease || reset {
				return
			}
			reset = true
			if err := s.Reset(t.Context(), &g); err != nil {
				t.Error(err)
			}
		}
		for range 1000 {
			take(t, s, 0, g)
			if reset {
				break
			}
		}
		if stats := s.Stats(); !reset || s.held() != 0 || stats.Permits == 0 || stats.Expired != stats.Permits {
			t.Errorf("reset is %v; %d permits are held; %+v", reset, s.held(), stats)
		}
	})
}

// While a lease is on its way no other is taken; once it would have expired, the node no longer waits for it.
func TestOneLeaseAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := 0
		inner := &distantStore{Model: storetest.NewModel()}
		s, g := around(t, inner), leased(stranger(), 1, counterPerSecond(100_000))
		inner.onWay = func(lease bool) {
			if !lease {
				return
			}
			if leases++; leases > 1 {
				return
			}
			for range 100 {
				take(t, s, 0, g)
			}
			if leases != 1 {
				t.Errorf("%d leases are on their way", leases)
			}
			time.Sleep(10 * time.Millisecond)
			for range 100 {
				take(t, s, 0, g)
			}
			if leases < 2 {
				t.Error("nobody takes another when the first is late")
			}
		}
		for leases == 0 {
			take(t, s, 0, g)
		}
	})
}

// The store's answer about a subject is not applied to another subject that has replaced it in the table.
func TestDisplacedWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &distantStore{Model: storetest.NewModel()}
		s, g := around(t, inner), leased(stranger(), 1, perSecond(1000))
		inner.onWay = func(bool) {
			inner.onWay = nil
			for i := range byte(ways) { // all in its set
				other := g
				other.Subject[0] ^= i + 1
				other.Charges = leased(g.Subject, 7, perSecond(1000)).Charges
				take(t, s, 0, other)
			}
		}
		take(t, s, 0, g)
		s.eachPool(func(p *pool) {
			if p.owner != 0 && (p.known[0].Used != 7 || p.subject == g.Subject) {
				t.Errorf("of a subject with 7 used it is known %+v", p.known[0])
			}
		})
	})
}
