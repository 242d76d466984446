package grpclimit

import (
	"context"
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
