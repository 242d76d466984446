package grpclimit

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

// concludeWithin is how long a conclusion may take. It is done even if the client is gone: somebody
// else waits for the place.
const concludeWithin = 5 * time.Second

// conclude ends what a call has reserved, if anything.
func (l *Limiter) conclude(ctx context.Context, method string, c *penstock.Conclusion) {
	if l.concluder == nil || c.Reservation == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), concludeWithin)
	defer cancel()
	var v penstock.Verdict
	if err := l.concluder.Conclude(ctx, c, &v); err != nil {
		l.onError(method, err)
	}
}

const (
	// renewAtMost is the pause between renewals of what is reserved for a cost that comes with the
	// answer. Rules give that 5 minutes unless they say otherwise.
	renewAtMost = 2 * time.Minute

	renewAtLeast = 50 * time.Millisecond
)

// keep renews what a call has reserved until it is stopped: leases when half of their time is over.
func (l *Limiter) keep(ctx context.Context, c *call) (stop func()) {
	pause := renewAtMost
	for i := range c.Limits {
		if c.Limits[i].Algorithm == penstock.Concurrency {
			pause = min(pause, c.Limits[i].Window/2)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var ended sync.WaitGroup
	ended.Go(func() { l.renew(ctx, c.method, c.Reservation, max(pause, renewAtLeast)) })
	return func() {
		cancel()
		ended.Wait()
	}
}

func (l *Limiter) renew(ctx context.Context, method, reservation string, pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	renewal := penstock.Conclusion{Reservation: reservation, Verb: penstock.Renew}
	var v penstock.Verdict
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := l.concluder.Conclude(ctx, &renewal, &v); err != nil && ctx.Err() == nil {
			l.onError(method, err) // and tries again: a store that was away may be back in time
		}
	}
}
