package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// used returns what the store has counted for a group's first limit.
func used(t testing.TB, store penstock.Store, now penstock.Instant, g storage.Group) int64 {
	t.Helper()
	return take(t, store, now, leased(g.Subject, 0, g.Charges[0].Meter)).Decisions[0].Used
}

func TestReturn(t *testing.T) {
	inner := memory(t, little)
	s := around(t, inner)
	bucket := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 20_000, Window: time.Second}.MustCompile()
	g := leased(stranger(), 1, perSecond(10_000), bucket)
	calls := heat(t, s, monday, g)
	held := s.held()
	if held == 0 {
		t.Fatal("no permits are held")
	}
	if err := s.Return(t.Context(), monday); err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); s.held() != 0 || stats.Returned != held || stats.Expired != 0 {
		t.Errorf("%d permits are held; %+v", s.held(), stats)
	}
	peek := take(t, inner, monday, leased(g.Subject, 0, g.Charges[0].Meter, bucket))
	for i := range peek.Decisions {
		if peek.Decisions[i].Used != int64(calls) {
			t.Errorf("after %d calls: %+v", calls, peek.Decisions[i])
		}
	}

	before := s.Stats()
	for range 100 {
		if out := take(t, s, monday, g); !out.Allowed || out.Groups[0].Leased {
			t.Fatalf("afterwards: %+v", out)
		}
	}
	if now := s.Stats(); now.Exact != before.Exact+100 || now.Permits != before.Permits {
		t.Errorf("afterwards: %+v, before %+v", now, before)
	}
	if err := s.Return(t.Context(), monday); err != nil || used(t, inner, monday, g) != int64(calls)+100 {
		t.Errorf("again: %v; %d are used after %d calls", err, used(t, inner, monday, g), calls+100)
	}
	if err := s.Reset(t.Context(), &g); err != nil || used(t, s, monday, g) != 0 {
		t.Errorf("a reset of what is not leased any more: %v", err)
	}
}

// Quota of a limit that now has other numbers is not returned under them: it is lost, and the counter refills
// only by the limit in force.
func TestReturnAfterAChange(t *testing.T) {
	inner := memory(t, little)
	s, subject := around(t, inner), stranger()
	bucket := func(count int64) *algorithm.Meter {
		return penstock.Limit{Algorithm: penstock.TokenBucket, Count: count, Burst: 20_000, Window: time.Second}.MustCompile()
	}
	calls := int64(heat(t, s, monday, leased(subject, 1, bucket(10_000))))
	held := s.held()
	g := leased(subject, 1, bucket(20_000))
	calls += int64(heat(t, s, monday, g))
	if err := s.Return(t.Context(), monday+ms); err != nil {
		t.Fatal(err)
	}
	if got, want := used(t, inner, monday+ms, g), max(0, calls+held-20); got != want || s.Stats().Expired != held {
		t.Errorf("%d are used a millisecond after %d calls and %d lost permits, want %d; %+v", got, calls, held, want, s.Stats())
	}
}

// Quota is spent only under the limit it was leased under, whether that is lowered or raised.
func TestChangedLimit(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after int64
		allowed       bool
	}{
		{"lowered below what is used", 100_000, 10, false},
		{"lowered", 100_000, 50_000, true},
		{"raised", 50_000, 100_000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inner := memory(t, little)
			s, subject := around(t, inner), stranger()
			old, changed := leased(subject, 1, perSecond(test.before)), leased(subject, 1, perSecond(test.after))
			calls := int64(heat(t, s, monday, old))
			held := s.held()
			if calls+held <= 10 || held == 0 {
				t.Fatalf("%d calls and %d permits are too few for this test", calls, held)
			}
			for range 5 { // while quota of the old limit would still be valid
				out := take(t, s, monday, changed)
				if out.Groups[0].Leased || out.Allowed != test.allowed {
					t.Fatalf("allowed %v, by permits %v; want %v, by the store", out.Allowed, out.Groups[0].Leased, test.allowed)
				}
			}
			if s.Stats().Expired != held {
				t.Errorf("%d permits are lost, %d were held", s.Stats().Expired, held)
			}
			if out := take(t, s, monday, old); out.Groups[0].Leased {
				t.Error("a request under the old limit finds its permits again")
			}
		})
	}
}

// Rules that are compiled again with the same numbers keep their quota.
func TestSameLimitCompiledAgain(t *testing.T) {
	s, subject := around(t, memory(t, little)), stranger()
	heat(t, s, monday, leased(subject, 1, perSecond(10_000)))
	if out := take(t, s, monday, leased(subject, 1, perSecond(10_000))); !out.Groups[0].Leased {
		t.Error("the permits are gone")
	}
}

// forgetfulStore answers nothing while it is down, and loses some replies to settlements.
type forgetfulStore struct {
	settlingStore
	down  bool
	loses int
	told  int
}

func (f *forgetfulStore) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	f.told++
	if f.down {
		return fmt.Errorf("%w: down", penstock.ErrUnavailable)
	}
	err := f.settlingStore.Settle(ctx, s, out)
	if f.told <= f.loses {
		return fmt.Errorf("%w: the reply was lost", penstock.ErrUnavailable)
	}
	return err
}

// A lease whose reply is lost is settled again, and given back once.
func TestReturnWhereRepliesAreLost(t *testing.T) {
	inner := &forgetfulStore{settlingStore: memory(t, little), loses: attempts - 1}
	s, g := around(t, inner), leased(stranger(), 1, perSecond(10_000))
	calls := heat(t, s, monday, g)
	if err := s.Return(t.Context(), monday); err != nil || inner.told != attempts {
		t.Errorf("told %d times: %v", inner.told, err)
	}
	if got := used(t, inner, monday, g); got != int64(calls) || s.Stats().Returned == 0 {
		t.Errorf("%d are used after %d calls; %+v", got, calls, s.Stats())
	}
}

// What cannot be given back expires. If the store has failed, the error says how much.
func TestReturnInVain(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		told int
	}{{"the store is down", t.Context(), attempts}, {"there is no time left", over, 1}} {
		t.Run(test.name, func(t *testing.T) {
			inner := &forgetfulStore{settlingStore: memory(t, little), down: true}
			s, g := around(t, inner), leased(stranger(), 1, perSecond(10_000))
			heat(t, s, monday, g)
			held := s.held()
			err := s.Return(test.ctx, monday)
			if want := fmt.Sprintf("return permits: %d were not taken back and expire: ", held); !errors.Is(err, penstock.ErrUnavailable) || err.Error()[:len(want)] != want {
				t.Errorf("got %v, want %s…", err, want)
			}
			if stats := s.Stats(); inner.told != test.told || stats.Expired != held || stats.Returned != 0 || s.held() != 0 {
				t.Errorf("told %d times; %+v", inner.told, stats)
			}
		})
	}
	t.Run("by another clock", func(t *testing.T) {
		s, g := around(t, memory(t, little)), leased(stranger(), 1, perSecond(10_000))
		heat(t, s, monday, g)
		held := s.held()
		if err := s.Return(t.Context(), 0); err != nil || s.Stats().Expired != held {
			t.Errorf("%v; %+v", err, s.Stats())
		}
	})
}

// Next to a guarded group of the same subject a lease cannot be named. It is still taken, and expires.
func TestReturnBesideAGuard(t *testing.T) {
	inner := memory(t, little)
	s, g := around(t, inner), leased(stranger(), 1, perSecond(10_000))
	dedup, err := algorithm.DedupTerms{TTL: time.Minute, MaxReplays: 1, Budget: 1, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Minute}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g.Dedup = dedup // of requests without an ID, so that leases may decide them
	heat(t, s, monday, g)
	if err := s.Return(t.Context(), monday); err != nil {
		t.Fatal(err)
	}
	if stats := s.Stats(); stats.Permits == 0 || stats.Permits != stats.Leased+stats.Expired+stats.Returned {
		t.Errorf("%+v", stats)
	}
}

// What was charged before a reset through another node is not given back to what was counted since.
func TestReturnAfterAReset(t *testing.T) {
	inner := memory(t, little)
	s, other, g := around(t, inner), around(t, inner), leased(stranger(), 1, perSecond(10_000))
	heat(t, s, monday, g)
	held := s.held()
	if err := other.Reset(t.Context(), &g); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		take(t, inner, monday, g)
	}
	if err := s.Return(t.Context(), monday); !errors.Is(err, penstock.ErrNoReservation) {
		t.Errorf("got %v", err)
	}
	if n := used(t, inner, monday, g); n != 5 || s.Stats().Expired != held {
		t.Errorf("%d are used, want 5; %+v", n, s.Stats())
	}
}

// By this node's own clock quota is given back as long as it lives.
func TestReturnInTime(t *testing.T) {
	for after, want := range map[time.Duration]bool{0: true, 10*time.Millisecond - time.Microsecond: true, 10 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			inner := storetest.NewModel()
			s, g := around(t, inner), leased(stranger(), 1, penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 1000, Window: time.Second}.MustCompile())
			warm(t, s, g)
			held := s.held()
			time.Sleep(after)
			if err := s.Return(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if stats := s.Stats(); (stats.Returned == held) != want || stats.Returned+stats.Expired != held {
				t.Errorf("after %v: %d were held; %+v", after, held, stats)
			}
		})
	}
}

// A lease that arrives after everything has been given back expires: no node holds it.
func TestReturnWhileALeaseIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &distantStore{Model: storetest.NewModel()}
		s, g := around(t, inner), leased(stranger(), 1, perSecond(1000))
		done := false
		inner.onWay = func(lease bool) {
			if lease && !done {
				done = true
				if err := s.Return(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}
		}
		for range 1000 {
			take(t, s, 0, g)
		}
		if stats := s.Stats(); !done || s.held() != 0 || stats.Permits == 0 || stats.Expired != stats.Permits {
			t.Errorf("returned is %v; %d are held; %+v", done, s.held(), stats)
		}
	})
}

// TestPoolSize checks the documented size of a pool.
func TestPoolSize(t *testing.T) {
	if size := unsafe.Sizeof(pool{}); size > 384 {
		t.Errorf("a pool takes %d bytes, said are 384", size)
	}
}
