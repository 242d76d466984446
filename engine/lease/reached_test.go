package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// When several nodes reach a limit, nearly all of it passes and never more, although answers are slow and
// clients pause for longer than ℓ.
func TestReachedLimitIsUsed(t *testing.T) {
	const limit, windows = 4000, 3
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			passed := reach(t, seed, limit, windows)
			for i := 1; i <= windows; i++ {
				if n := passed[i]; n > limit || n < limit*97/100 {
					t.Errorf("seed %d, window %d: %d passed of %d", seed, i, n, limit)
				}
			}
		})
	}
}

// reach asks three nodes for more than the limit, and returns what passed in each second. The first one may be
// incomplete.
func reach(t *testing.T, seed uint64, limit int64, windows int) []int64 {
	const clients, nodes = 12, 3
	inner := &distantStore{Model: storetest.NewModel()}
	var mu sync.Mutex // of the random numbers and the sums
	r := rand.New(rand.NewPCG(seed, 17))
	pause := func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(most)))
	}
	var answers atomic.Int64
	inner.onWay = func(bool) {
		time.Sleep(pause(time.Millisecond))
		if answers.Add(1)%10 == 0 {
			time.Sleep(pause(40 * time.Millisecond))
		}
	}
	g := leased(stranger(), 1, perSecond(limit))
	passed := make([]int64, windows+2)
	first := time.Now().Truncate(time.Second)
	end := first.Add(time.Duration(windows+1) * time.Second)
	var all sync.WaitGroup
	for range nodes {
		node, err := denycache.New(storetest.Full(around(t, inner)), denycache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range clients / nodes {
			all.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					var out storage.Outcome
					if err := node.Take(context.Background(), &storage.Ticket{Groups: []storage.Group{g}}, &out); err != nil {
						t.Error(err)
						return
					}
					if out.Allowed { // leases end with their window, so it was charged to that of the verdict
						mu.Lock()
						passed[out.Now.Time().Sub(first)/time.Second]++
						mu.Unlock()
					}
					time.Sleep(100 * time.Microsecond)
					if i%300 == 299 {
						time.Sleep(pause(40 * time.Millisecond))
					}
				}
			})
		}
	}
	all.Wait()
	return passed
}

// A denial is not firm while the node has quota that it can spend, or fetches it: the deny cache in front of the
// leases would answer in their place.
func TestDenialIsFirmWithoutQuota(t *testing.T) {
	const limit = 1000
	inner := &lossy{distantStore: distantStore{Model: storetest.NewModel()}}
	s, g := around(t, inner), leased(stranger(), 1, perSecond(limit))
	large := leased(g.Subject, limit, g.Charges[0].Meter)
	synctest.Test(t, func(t *testing.T) {
		firm := func() bool {
			t.Helper()
			out := take(t, s, 0, large)
			if out.Allowed {
				t.Fatalf("%+v", out)
			}
			return out.Groups[0].FirmUntil != 0
		}
		take(t, s, 0, g)
		if !firm() {
			t.Error("not firm before there are leases")
		}
		onWay := 0
		inner.onWay = func(lease bool) {
			if lease {
				if onWay++; firm() {
					t.Error("firm while a lease is on its way")
				}
			}
		}
		warm(t, s, g)
		if onWay == 0 || firm() {
			t.Errorf("firm while %d are held; %d leases", s.held(), onWay)
		}
		inner.onWay = nil
		inner.loses = true // the next lease, whose fetch then ends
		for s.held() > 0 {
			take(t, s, 0, g)
		}
		if inner.lost == 0 || !firm() {
			t.Errorf("not firm without quota; %d leases were lost", inner.lost)
		}
	})
}

// lossy loses the replies to tickets that take a lease.
type lossy struct {
	distantStore
	loses bool
	lost  int
}

func (l *lossy) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	err := l.distantStore.Take(ctx, t, out)
	if l.loses && t.Groups[len(t.Groups)-1].Alone {
		l.lost++
		return errors.Join(err, penstock.ErrUnavailable)
	}
	return err
}
