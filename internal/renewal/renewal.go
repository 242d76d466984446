// Package renewal keeps reservations open while their requests run. All middleware uses it.
package renewal

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

const (
	// perTTL is how often a reservation is renewed within its time to live: one renewal may fail.
	perTTL = 3

	// unknownTTL is assumed if the verdict has no ReservedFor: a remote Penstock may be an older release.
	unknownTTL = 5 * time.Minute
)

// Keep renews what the verdict reserved until stop is called; stop returns once no renewal is running. The
// verdict must name a reservation. A renewal that fails is reported to onError and tried again. Keep reads
// the verdict before it returns.
func Keep(ctx context.Context, c penstock.Concluder, v *penstock.Verdict, onError func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the handler may continue after the client has disconnected
	k := renewer{c, v.Reservation, onError}
	ttl := openFor(v)
	var ended sync.WaitGroup
	ended.Go(func() { k.run(ctx, ttl) })
	return func() {
		cancel()
		ended.Wait()
	}
}

type renewer struct {
	concluder   penstock.Concluder
	reservation string
	onError     func(error)
}

func (k *renewer) run(ctx context.Context, ttl time.Duration) {
	timer := time.NewTimer(pause(ttl))
	defer timer.Stop()
	var v penstock.Verdict
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := k.concluder.Conclude(ctx, &penstock.Conclusion{Reservation: k.reservation, Verb: penstock.Renew}, &v)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.onError(err) // then try again: an unavailable store may be back in time
		case v.ReservedFor > 0:
			ttl = v.ReservedFor // the rules may have changed
		}
		timer.Reset(pause(ttl))
	}
}

func pause(ttl time.Duration) time.Duration { return max(ttl/perTTL, time.Millisecond) }

// openFor returns how long the reservation is open.
func openFor(v *penstock.Verdict) time.Duration {
	if v.ReservedFor > 0 {
		return v.ReservedFor
	}
	ttl := unknownTTL
	for i := range v.Limits {
		if v.Limits[i].Algorithm == penstock.Concurrency {
			ttl = min(ttl, v.Limits[i].Window)
		}
	}
	return ttl
}
