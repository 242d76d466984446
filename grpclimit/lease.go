package grpclimit

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
)

// concludeWithin is how long a conclusion may take. It is sent even if the client has disconnected: other
// requests wait for the permit.
const concludeWithin = 5 * time.Second

// conclude concludes what a request has reserved, if anything.
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
