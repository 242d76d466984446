package httplimit

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

const (
	// renewAtMost is the pause between renewals of what is reserved for a cost that comes with the
	// response. Rules give that 5 minutes unless they say otherwise.
	renewAtMost = 2 * time.Minute

	renewAtLeast = 50 * time.Millisecond
)

// keepRenewing keeps what the call has reserved for as long as its response takes: a place among
// simultaneous calls is renewed when half of its time is over. stop returns when it has ended.
func (l *Limiter) keepRenewing(req *http.Request, v *penstock.Verdict) (stop func()) {
	if l.concluder == nil || v.Reservation == "" {
		return func() {}
	}
	pause := renewAtMost
	for i := range v.Limits {
		if v.Limits[i].Algorithm == penstock.Concurrency {
			pause = min(pause, v.Limits[i].Window/2)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	var ended sync.WaitGroup
	ended.Go(func() { l.renew(ctx, req, v.Reservation, max(pause, renewAtLeast)) })
	return func() {
		cancel()
		ended.Wait()
	}
}

func (l *Limiter) renew(ctx context.Context, req *http.Request, reservation string, pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	var v penstock.Verdict
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c := penstock.Conclusion{Reservation: reservation, Verb: penstock.Renew}
		if err := l.concluder.Conclude(ctx, &c, &v); err != nil && ctx.Err() == nil {
			l.onError(req, err) // and tries again: a store that was away may be back in time
		}
	}
}
