package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Compiling and replaying are expensive, and requests are decided at the same time. So only a few run concurrently.
const (
	maxTurns      = 2
	operatorTurns = 1 // of these, reserved for operators
	maxWaiting    = 8 // viewers waiting for a turn
	longestWait   = 10 * time.Second
)

// workSlots limits expensive work. Viewers can neither take all turns nor wait in unbounded numbers.
type workSlots struct{ all, viewers, waiting chan struct{} }

func newWorkSlots() *workSlots {
	return &workSlots{make(chan struct{}, maxTurns), make(chan struct{}, maxTurns-operatorTurns), make(chan struct{}, maxWaiting)}
}

// begin waits for a turn. The caller must call end.
func (t *workSlots) begin(ctx context.Context, role Role) (end func(), err error) {
	if role >= Operator {
		return acquire(ctx, t.all)
	}
	return queue(ctx, t.waiting, "%d requests of viewers are waiting already", t.viewers, t.all)
}

// queue acquires places within longestWait. Meanwhile it has one in waiting. full is the format of the error if none of
// those is free.
func queue(ctx context.Context, waiting chan struct{}, full string, all ...chan struct{}) (release func(), err error) {
	select {
	case waiting <- struct{}{}:
		defer func() { <-waiting }()
	default:
		return nil, busy(fmt.Sprintf(full, cap(waiting)))
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	return acquire(ctx, all...)
}

// acquire takes a place in each of some channels, one after the other.
func acquire(ctx context.Context, all ...chan struct{}) (release func(), err error) {
	release = func() {}
	for _, of := range all {
		before := release
		select {
		case of <- struct{}{}:
			release = func() { <-of; before() }
		case <-ctx.Done():
			release()
			return nil, busy("too many requests in flight")
		}
	}
	return release, nil
}

// busy returns the problem for a client that cannot have a turn now.
func busy(why string) *Problem {
	p := refuse(http.StatusServiceUnavailable, Unavailable, "the server is busy: "+why)
	p.RetryAfter = int64(longestWait / time.Second)
	return p
}
