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
	viewersWait   = 10 * time.Second
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
	select {
	case t.waiting <- struct{}{}:
		defer func() { <-t.waiting }()
	default:
		return nil, busy(fmt.Sprintf("%d requests of viewers are waiting already", maxWaiting))
	}
	ctx, cancel := context.WithTimeout(ctx, viewersWait)
	defer cancel()
	viewer, err := acquire(ctx, t.viewers)
	if err != nil {
		return nil, err
	}
	shared, err := acquire(ctx, t.all)
	if err != nil {
		viewer()
		return nil, err
	}
	return func() { shared(); viewer() }, nil
}

func acquire(ctx context.Context, of chan struct{}) (release func(), err error) {
	select {
	case of <- struct{}{}:
		return func() { <-of }, nil
	case <-ctx.Done():
		return nil, busy("too many requests in flight")
	}
}

// busy returns the problem for a client that cannot have a turn now.
func busy(why string) *Problem {
	p := refuse(http.StatusServiceUnavailable, Unavailable, "the server is busy: "+why)
	p.RetryAfter = int64(viewersWait / time.Second)
	return p
}
