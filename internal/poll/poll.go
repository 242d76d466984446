// Package poll repeats work until a context ends: at an interval or when woken and, for lost connections, with
// growing pauses.
package poll

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A Waker ends the pause of [Every]. It holds at most one signal, since one run finds everything that is new.
type Waker chan struct{}

// NewWaker returns a Waker without a signal.
func NewWaker() Waker { return make(Waker, 1) }

// Wake never blocks.
func (w Waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Every calls do after every interval, and when woken, until ctx ends. A nil Waker never wakes it.
func Every(ctx context.Context, interval time.Duration, wake Waker, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			return
		}
		do()
	}
}

// Pauses of Listen.
const minPause, maxPause = 100 * time.Millisecond, 30 * time.Second

// Listen calls listen again whenever it fails, until ctx ends or listen returns nil. listen calls changed for
// everything it receives. The pauses grow until it receives something. They are random, so that nodes that lost the
// same server do not all return at once.
func Listen(ctx context.Context, listen func(ctx context.Context, changed func()) error, changed func(), failed func(error)) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		var heard atomic.Bool
		err := listen(ctx, func() {
			heard.Store(true)
			changed()
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		if heard.Load() {
			pause = minPause
		}
		failed(err)
		if Pause(ctx, pause/2+rand.N(pause)) != nil {
			return
		}
	}
}

// Pause waits for d. It returns the context's error if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
