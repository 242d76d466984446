package httplimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// holdAll holds a call for each delay and returns them in the order in which they left, by index.
func holdAll(q *queue, delays []time.Duration) (order []int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, delay := range delays {
		all.Go(func() {
			if q.hold(context.Background(), delay) == nil {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				q.left()
			}
		})
	}
	all.Wait()
	return order
}

func TestHeldCallsLeaveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(9, 10))
		delays := make([]time.Duration, 500)
		for i, n := range random.Perm(len(delays)) {
			delays[i] = time.Duration(n+1) * time.Millisecond
		}
		begin := time.Now()
		order := holdAll(&queue{max: len(delays)}, delays)
		if len(order) != len(delays) || !slices.IsSortedFunc(order, func(a, b int) int { return int(delays[a] - delays[b]) }) {
			t.Errorf("left as %v", order)
		}
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("the last left after %v", took)
		}
	})
}

// The next waits for the one before, even if its own time has come.
func TestOneLeavesAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{max: 2}
		if err := q.hold(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
		second := make(chan struct{})
		go func() {
			defer close(second)
			if q.hold(t.Context(), time.Millisecond) == nil {
				q.left()
			}
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-second:
			t.Error("the second left before the first")
		default:
		}
		q.left()
		<-second
	})
}

func TestDeserters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{max: 3}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		gone := func(delay time.Duration) {
			all.Go(func() {
				if err := q.hold(ctx, delay); !errors.Is(err, context.Canceled) {
					t.Errorf("held for %v: %v", delay, err)
				}
			})
		}
		gone(time.Second)
		gone(3 * time.Second)
		stays := make(chan time.Duration, 1)
		begin := time.Now()
		all.Go(func() {
			if err := q.hold(t.Context(), 2*time.Second); err != nil {
				t.Error(err)
			}
			stays <- time.Since(begin)
			q.left()
		})
		synctest.Wait()
		if err := q.hold(t.Context(), time.Second); !errors.Is(err, errQueueFull) {
			t.Errorf("a fourth of three: %v", err)
		}
		cancel()
		all.Wait()
		if after := <-stays; after != 2*time.Second {
			t.Errorf("left after %v", after)
		}
		if len(q.held) != 0 || q.leaving {
			t.Errorf("%d held, leaving %v", len(q.held), q.leaving)
		}
	})
}

// One that is called and gone at the same moment holds up nobody.
func TestCalledAndGone(t *testing.T) {
	q := &queue{max: 1}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.hold(gone, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if q.leaving || len(q.held) != 0 {
		t.Error("the queue is stuck")
	}
}
