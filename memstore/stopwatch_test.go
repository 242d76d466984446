package memstore

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// counting returns a clock that reads the processor's counter.
func counting(t *testing.T) *clock {
	t.Helper()
	if !countsTicks() {
		t.Skip("the system's clock is not the processor's counter")
	}
	c := &clock{}
	c.init()
	for deadline := time.Now().Add(time.Minute); c.watch.scale.Load() == nil; c.now() {
		if time.Now().After(deadline) {
			t.Fatal("the rate of the counter was not measured within a minute")
		}
	}
	return c
}

// checkNow checks that the clock returns an instant between the call and the return.
func checkNow(t *testing.T, c *clock) {
	t.Helper()
	const slew = 100 // µs: see hammer
	before, now := realNow(), c.now()
	if after := realNow(); now < before-slew || now > after+slew {
		t.Fatalf("%d, want from %d to %d", now, before, after)
	}
}

func TestClockCountsTicks(t *testing.T) {
	c := counting(t)
	for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
		checkNow(t, c)
	}
	c.offset.Add(int64(time.Hour)) // as if the wall clock had been set back
	c.anchored.Add(-int64(anchorFor))
	checkNow(t, c)
}

// A counter that does not agree with the system's clock is given up, and the time continues from the last check.
func TestCounterThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]func(s *tickScale){
		"ten percent fast": func(s *tickScale) { s.scale += s.scale / 10 },
		"ten percent slow": func(s *tickScale) { s.scale -= s.scale / 10 },
		"an hour ahead":    func(s *tickScale) { s.from.since += int64(time.Hour) },
		"an hour behind":   func(s *tickScale) { s.from.since -= int64(time.Hour) },
		"reset":            func(s *tickScale) { s.from.ticks += 1 << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			c := counting(t)
			s := *c.watch.scale.Load()
			wrong(&s)
			c.watch.scale.Store(&s)
			for deadline := time.Now().Add(time.Minute); c.watch.scale.Load() != nil; c.now() {
				if time.Now().After(deadline) {
					t.Fatal("the counter is still used after a minute")
				}
			}
			checkNow(t, c)
			c.anchored.Add(-int64(anchorFor))
			checkNow(t, c)
			if time.Sleep(2 * measureFor); c.anchor(0) == 0 || c.watch.scale.Load() != nil {
				t.Error("the counter is used again")
			}
		})
	}
}

// A reading far from the last check is not used before it is checked, also while another goroutine checks.
func TestCounterThatIsWrongIsWaitedFor(t *testing.T) {
	for name, jump := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := counting(t)
			s := *c.watch.scale.Load()
			s.from.since += int64(jump)
			c.anchoring.Lock()
			c.watch.scale.Store(&s)
			got := make(chan algorithm.Instant)
			go func() { got <- c.now() }()
			select {
			case now := <-got:
				t.Fatalf("%d, which was not checked", now)
			case <-time.After(20 * time.Millisecond):
			}
			c.anchoring.Unlock()
			if off := <-got - realNow(); off < -algorithm.Instant(time.Minute/time.Microsecond) || off > algorithm.Instant(time.Minute/time.Microsecond) {
				t.Errorf("%d µs from the clock", off)
			}
		})
	}
}

// The system's clock is adjusted all the time, so the counter may drift away from it slowly.
func TestCounterThatDrifts(t *testing.T) {
	c := counting(t)
	s := *c.watch.scale.Load()
	s.scale += s.scale / (4 * maxDrift)
	s.from = tickReading{readTicks(), c.watch.since()}
	c.watch.scale.Store(&s)
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		checkNow(t, c)
	}
	if c.watch.scale.Load() == nil {
		t.Error("the counter was given up")
	}
	if c.watch.lead.Load() <= 0 {
		t.Errorf("a fast counter is %d ns ahead", c.watch.lead.Load())
	}
}
