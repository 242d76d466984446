package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

func (c *clock) isRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// A goroutine that outlived the store would be noticed by synctest, which waits for all of them.
func TestClockRunsWhileThereIsTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		c := &s.clock
		for range 3 { // now and then
			if _, exact := c.now(); !exact || c.isRunning() {
				t.Fatal("a coarse instant without traffic")
			}
			time.Sleep(time.Second)
		}
		for range 10 { // often
			c.now()
			time.Sleep(100 * time.Microsecond)
		}
		for range 1000 {
			now, exact := c.now()
			if behind := realNow() - now; exact || behind < 0 || behind > penstock.Instant(tick.Microseconds()) {
				t.Fatalf("%d µs behind, exact %v", behind, exact)
			}
			time.Sleep(300 * time.Microsecond)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if c.isRunning() {
			t.Error("still running while idle")
		}
		if now, exact := c.now(); !exact || now != realNow() {
			t.Error("a coarse instant that nobody keeps fresh")
		}
		if c.now(); !c.isRunning() {
			t.Error("not started anew")
		}
		for range 2 {
			if err := s.Close(); err != nil || c.isRunning() {
				t.Errorf("after Close: running %v, %v", c.isRunning(), err)
			}
		}
		c.now()
		if _, exact := c.now(); !exact || c.isRunning() {
			t.Error("started again after Close")
		}
	})
}

// Before a denial the real clock is read: the coarse one stands still here.
func TestCoarseInstantDeniesNothing(t *testing.T) {
	for _, name := range []string{"one charge", "several"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, Options{})
			m := limit(t, penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1, Window: time.Second})
			ticket := single(1, m, 1)
			if name == "several" {
				other := limit(t, penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: time.Hour})
				ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, penstock.Charge{Meter: other, Cost: 1})
			}
			stale := realNow()
			s.clock.coarse.Store(int64(stale))
			if out := take(t, s, ticket); !out.Allowed || out.Now != stale {
				t.Errorf("%s: %+v", name, out)
			}
			time.Sleep(time.Second - time.Microsecond)
			if out := take(t, s, ticket); out.Allowed || out.Now != realNow() || out.Decisions[0].RetryAfter != time.Microsecond {
				t.Errorf("%s: %+v", name, out)
			}
			time.Sleep(time.Microsecond)
			if out := take(t, s, ticket); !out.Allowed || out.Now != realNow() {
				t.Errorf("%s: %+v", name, out)
			}
		})
	}
}
