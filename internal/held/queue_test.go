package held

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

func newQueue(t *testing.T, o Options) *Queue {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// hold joins the queue and waits.
func (q *Queue) hold(ctx context.Context, rule string, delay time.Duration) (Position, error) {
	p, err := q.Join(rule, 1)
	if err != nil {
		return p, err
	}
	return p, p.Wait(ctx, time.Now().Add(delay))
}

// isEmpty fails the test if the queue still counts or calls any request.
func (q *Queue) isEmpty(t *testing.T) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total != (load{}) || len(q.rules) != 0 || len(q.waiting) != 0 || q.leaving {
		t.Errorf("the queue is not empty: %+v, %v, %d wait, leaving %v", q.total, q.rules, len(q.waiting), q.leaving)
	}
}

func TestRequestsLeaveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(9, 10))
		delays := make([]time.Duration, 500)
		for i, n := range random.Perm(len(delays)) {
			delays[i] = time.Duration(n+1) * time.Millisecond
		}
		q := newQueue(t, Options{})
		var mu sync.Mutex
		var order []time.Duration
		var all sync.WaitGroup
		begin := time.Now()
		for i, delay := range delays {
			all.Go(func() {
				p, err := q.hold(t.Context(), fmt.Sprint("rule", i%3), delay)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, delay)
				mu.Unlock()
				p.Leave()
			})
		}
		all.Wait()
		if len(order) != len(delays) || !slices.IsSorted(order) {
			t.Errorf("left as %v", order)
		}
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("the last left after %v", took)
		}
		q.isEmpty(t)
	})
}

// The next waits for the one before, even if its own time has come.
func TestOneLeavesAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{})
		first, err := q.hold(t.Context(), "a", time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan struct{})
		go func() {
			defer close(second)
			if p, err := q.hold(t.Context(), "a", time.Millisecond); err == nil {
				p.Leave()
			}
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case <-second:
			t.Error("the second left before the first")
		default:
		}
		first.Leave()
		<-second
		q.isEmpty(t)
	})
}

// Clients that disconnect do not delay others, and their requests leave the queue.
func TestClientsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, delay := range []time.Duration{time.Second, 3 * time.Second} {
			all.Go(func() {
				p, err := q.hold(ctx, "a", delay)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("held for %v: %v", delay, err)
				}
				p.Leave()
			})
		}
		stays := make(chan time.Duration, 1)
		begin := time.Now()
		all.Go(func() {
			p, err := q.hold(t.Context(), "a", 2*time.Second)
			if err != nil {
				t.Error(err)
			}
			stays <- time.Since(begin)
			p.Leave()
		})
		synctest.Wait()
		cancel()
		all.Wait()
		if after := <-stays; after != 2*time.Second {
			t.Errorf("left after %v", after)
		}
		q.isEmpty(t)
	})
}

// A request that is called while its client disconnects does not delay others.
func TestCalledAndGone(t *testing.T) {
	q := newQueue(t, Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := q.hold(gone, "a", 0)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.Leave()
	q.isEmpty(t)
}

// A request that is still being read, and does not wait yet, does not delay others.
func TestOneThatDoesNotWaitYet(t *testing.T) {
	q := newQueue(t, Options{})
	slow, err := q.Join("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := q.hold(t.Context(), "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Leave()
	slow.Leave()
	q.isEmpty(t)
}

// fill joins until the queue is full, and returns the places.
func (q *Queue) fill(t *testing.T, rule string, bytes int64) (places []Position) {
	t.Helper()
	for {
		p, err := q.Join(rule, bytes)
		if errors.Is(err, ErrFull) {
			return places
		}
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
}

// Whatever one rule holds, the next one has room: in requests and in bytes.
func TestRulesShareTheQueue(t *testing.T) {
	for _, test := range []struct {
		name  string
		queue Options
	}{
		{"requests", Options{MaxRequests: 1000, MaxBytes: 1 << 40}},
		{"bytes", Options{MaxRequests: 1 << 20, MaxBytes: 1000 << 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQueue(t, test.queue)
			var all []Position
			refused := map[string]int64{}
			for i, want := range []int{500, 250, 125, 63, 31} {
				rule := fmt.Sprint("rule", i)
				places := q.fill(t, rule, 1<<10)
				refused[rule] = 1
				if len(places) != want {
					t.Errorf("%s holds %d, want %d", rule, len(places), want)
				}
				all = append(all, places...)
			}
			requests, bytes, got := q.Stats()
			if requests != len(all) || bytes != int64(len(all))<<10 || !maps.Equal(got, refused) {
				t.Errorf("%d requests, %d bytes, refused %v; want %d, %d, %v", requests, bytes, got, len(all), len(all)<<10, refused)
			}
			for _, p := range all {
				p.Leave()
			}
			q.isEmpty(t)
			if n := len(q.fill(t, "rule0", 1<<10)); n != 500 {
				t.Errorf("after all have left, a rule holds %d, want 500", n)
			}
		})
	}
}

// A request is held by the rule that delays it longest.
func TestRuleOf(t *testing.T) {
	limit := func(rule string, delay time.Duration, shadow bool) penstock.LimitVerdict {
		return penstock.LimitVerdict{Rule: rule, Shadow: shadow, Decision: penstock.Decision{Delay: delay}}
	}
	v := &penstock.Verdict{Rule: "strictest", Delay: 2, Limits: []penstock.LimitVerdict{limit("strictest", 0, false), limit("tried", 2, true), limit("short", 1, false), limit("long", 2, false)}}
	if got := RuleOf(v); got != "long" {
		t.Error(got)
	}
	v.Limits = nil
	if got := RuleOf(v); got != "strictest" {
		t.Errorf("without limits: %s", got)
	}
}

func TestBoundsCannotBeNegative(t *testing.T) {
	for _, o := range []Options{{MaxRequests: -1}, {MaxBytes: -1}} {
		if _, err := New(o); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
