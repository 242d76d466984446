package redisstore

import (
	"sync"
	"time"
)

// A watch wakes tickets whose replies are overdue. All tickets of a store share one timer, because setting and
// stopping one for each ticket would cost as much as the rest of its wait.
type watch struct {
	mu      sync.Mutex
	entries watchEntry // the list's head: the earliest due is after it
	timer   *time.Timer
	rings   int64 // when the timer fires, see clock; 0: it is not set
}

// A watchEntry is a ticket's place in a watch.
type watchEntry struct {
	before, after *watchEntry // nil if it is not watched
	due           int64       // when it is woken, see clock
	wake          chan wakeReason
}

// A wakeReason is why a ticket that waits is woken. A ticket's channel has room for one of each.
type wakeReason bool

const (
	finished wakeReason = true  // its reply or error is set
	overdue  wakeReason = false // neither is
)

func (w *watch) init() { w.entries.before, w.entries.after = &w.entries, &w.entries }

// add wakes the entry when it is due, unless it is removed before.
func (w *watch) add(e *watchEntry, due int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.due = due
	e.before = w.entries.before
	for e.before != &w.entries && e.before.due > due { // rare: limits seldom become shorter
		e.before = e.before.before
	}
	e.after = e.before.after
	e.before.after, e.after.before = e, e
	w.setTimer()
}

// remove ends what add began. Afterwards, the watch has not woken the entry.
func (w *watch) remove(e *watchEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.after != nil {
		e.unlink()
		return
	}
	select {
	case <-e.wake:
	default:
	}
}

func (e *watchEntry) unlink() {
	e.before.after, e.after.before = e.after, e.before
	e.before, e.after = nil, nil
}

// ring wakes the entries that are due.
func (w *watch) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := clock()
	for e := w.entries.after; e != &w.entries && e.due <= now; e = w.entries.after {
		e.unlink()
		e.wake <- overdue
	}
	w.rings = 0
	w.setTimer()
}

// setTimer sets the timer to the entry that is due first. If it is set to an earlier time, it stays so.
func (w *watch) setTimer() {
	first := w.entries.after
	if first == &w.entries || w.rings != 0 && w.rings <= first.due {
		return
	}
	w.rings = first.due
	left := time.Duration(w.rings - clock())
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.ring)
	} else {
		w.timer.Reset(left)
	}
}
