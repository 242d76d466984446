package redisstore

import (
	"sync/atomic"
	"time"
)

// A limit is how long Redis may owe a reply. It follows the slowest recent reply, so that a Redis that is
// always fast gets less time than one that is far away. It is a multiple of that reply, at least a floor
// and at most the configured timeout. Until there are enough replies it is the timeout, and after a missing
// reply it soon is again.
type limit struct {
	max     atomic.Int64 // the timeout, in ns
	current atomic.Int64 // number of the window
	windows [2]struct {  // the current one, and the previous one in the other place
		slowest, replies atomic.Int64
	}
}

const (
	limitFloor   = 10 * time.Millisecond // or a fifth of the timeout, if that is more
	limitFactor  = 8                     // multiple of the slowest reply
	limitReplies = 100                   // replies before the limit adapts
	limitWindow  = 5 * time.Second       // replies are remembered for one to two windows
)

// window returns the number of the current window.
func window() int64 { return clock() / int64(limitWindow) }

// observe records how long a reply took.
func (l *limit) observe(took time.Duration) { l.observeAt(window(), took) }

func (l *limit) observeAt(now int64, took time.Duration) {
	w := &l.windows[l.advance(now)&1]
	w.replies.Add(1)
	for {
		slowest := w.slowest.Load()
		if int64(took) <= slowest || w.slowest.CompareAndSwap(slowest, int64(took)) {
			return
		}
	}
}

// advance forgets past windows and returns the number of the current one. Racing observers may lose a reply,
// which is harmless.
func (l *limit) advance(now int64) int64 {
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

// get returns the current limit.
func (l *limit) get() time.Duration { return l.at(window()) }

func (l *limit) at(now int64) time.Duration {
	l.advance(now)
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
