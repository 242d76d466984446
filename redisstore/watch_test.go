package redisstore

import (
	"testing"
	"testing/synctest"
	"time"
)

// A watch wakes each entry when it is due, in whatever order they were added, and never one that was removed.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		w.init()
		start := clock()
		woken := make(chan time.Duration, 9)
		entries := map[time.Duration]*watchEntry{}
		add := func(after time.Duration) {
			e := &watchEntry{wake: make(chan wakeReason, 2)}
			entries[after] = e
			w.add(e, start+int64(after))
			go func() {
				for reason := range e.wake {
					if reason == finished {
						return
					}
					woken <- time.Duration(clock() - start)
				}
			}()
		}
		for _, ms := range []time.Duration{30, 50, 10, 40, 20} { // the third is due before the timer fires
			add(ms * time.Millisecond)
		}
		w.remove(entries[40*time.Millisecond])
		time.Sleep(25 * time.Millisecond)
		w.add(entries[10*time.Millisecond], start+int64(35*time.Millisecond)) // its wait was extended
		w.remove(entries[20*time.Millisecond])
		time.Sleep(time.Second)
		for _, ms := range []time.Duration{10, 20, 30, 35, 50} {
			if at := <-woken; at != ms*time.Millisecond {
				t.Errorf("woken after %v, want %dms", at, ms)
			}
		}
		if len(woken) > 0 {
			t.Errorf("woken once more after %v", <-woken)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.entries.after != &w.entries || w.rings != 0 {
			t.Error("the watch is not at rest after its last entry")
		}
		for _, e := range entries {
			e.wake <- finished
		}
	})
}

// A ticket that is woken when it is also finished leaves nothing behind for the next that uses its channel.
func TestWatchTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		w.init()
		e := &watchEntry{wake: make(chan wakeReason, 2)}
		w.add(e, clock()+1)
		e.wake <- finished
		time.Sleep(time.Second)
		if reason := <-e.wake; reason != finished {
			t.Errorf("woken as %v first", reason)
		}
		w.remove(e)
		if len(e.wake) != 0 {
			t.Error("the channel is not empty")
		}
	})
}
