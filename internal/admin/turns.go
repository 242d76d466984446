package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Compiling and replaying take long, and requests are decided meanwhile: only a few do so at a time.
const (
	maxTurns      = 2
	operatorTurns = 1 // of these, kept for operators
	maxWaiting    = 8 // viewers that wait for a turn
	viewersWait   = 10 * time.Second
)

// turns are what work that takes long has to wait for. Viewers can neither take all of them nor wait
// in any number.
type turns struct{ all, viewers, waiting chan struct{} }

func newTurns() *turns {
	return &turns{make(chan struct{}, maxTurns), make(chan struct{}, maxTurns-operatorTurns), make(chan struct{}, maxWaiting)}
}

// begin waits for a turn; end must follow.
func (t *turns) begin(ctx context.Context, role Role) (end func(), err error) {
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
		return nil, busy("other requests are being worked on")
	}
}

// busy is the answer to who cannot have a turn now.
func busy(why string) *Problem {
	p := refuse(http.StatusServiceUnavailable, Unavailable, "the server is busy: "+why)
	p.RetryAfter = int64(viewersWait / time.Second)
	return p
}
