package redisstore

import (
	"sync/atomic"
	"time"
)

// A limit is how long Redis may owe a reply. It follows the slowest reply of late, so that a Redis
// that has always been quick is not waited for as long as one that is far away: multiple times that,
// at least a floor, at most the configured timeout. Until there are enough replies to go by it is the
// timeout, and after a reply that did not come it soon is again.
type limit struct {
	max     atomic.Int64 // the timeout, in ns
	current atomic.Int64 // number of the window
	windows [2]struct {  // the current one, and the one before it at the other place
		slowest, replies atomic.Int64
	}
}

const (
	limitFloor   = 10 * time.Millisecond // or a fifth of the timeout, if that is more
	limitFactor  = 8                     // times the slowest reply
	limitReplies = 100                   // that say enough
	limitWindow  = 5 * time.Second       // to remember replies for, once or twice
)

// window returns the number of the window that it is.
func window() int64 { return clock() / int64(limitWindow) }

// observe takes the time that a reply took.
func (l *limit) observe(took time.Duration) { l.observeAt(window(), took) }

func (l *limit) observeAt(now int64, took time.Duration) {
	w := &l.windows[l.turn(now)&1]
	w.replies.Add(1)
	for {
		slowest := w.slowest.Load()
		if int64(took) <= slowest || w.slowest.CompareAndSwap(slowest, int64(took)) {
			return
		}
	}
}

// turn forgets windows that are over, and returns the number of the current one. Racing observers may
// lose a reply, which does not matter.
func (l *limit) turn(now int64) int64 {
	was := l.current.Load()
	if now <= was || !l.current.CompareAndSwap(was, now) {
		return l.current.Load()
	}
	for n := max(was+1, now-1); n <= now; n++ {
		w := &l.windows[n&1]
		w.replies.Store(0)
		w.slowest.Store(0)
	}
	return now
}

// get returns the limit.
func (l *limit) get() time.Duration { return l.at(window()) }

func (l *limit) at(now int64) time.Duration {
	l.turn(now)
	timeout := l.max.Load()
	a, b := &l.windows[0], &l.windows[1]
	if a.replies.Load()+b.replies.Load() < limitReplies {
		return time.Duration(timeout)
	}
	slowest := max(a.slowest.Load(), b.slowest.Load())
	if slowest > timeout/limitFactor {
		return time.Duration(timeout)
	}
	return time.Duration(min(timeout, max(limitFactor*slowest, timeout/5, int64(limitFloor))))
}
