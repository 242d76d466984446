package redisstore

import (
	"context"
	"errors"
	"time"
)

// brief is the longest timeout with which a run need not end early when its caller has left.
const brief = 50 * time.Millisecond

// A callerDeadline is a context with its caller's deadline but without a timer. The client library sets the
// deadline on the connection.
type callerDeadline struct {
	context.Context
	at time.Time
}

func (u *callerDeadline) Deadline() (time.Time, bool) { return u.at, !u.at.IsZero() }

// within returns a context for a run that carries only this ticket.
func (c *pendingTicket) within(ctx context.Context) context.Context {
	c.until = callerDeadline{Context: context.Background()}
	if at, ok := ctx.Deadline(); ok {
		c.until.at = at
	}
	return &c.until
}

// A replyWait is the wait for a reply from Redis.
type replyWait struct {
	links      *links
	since, due time.Time
	end        time.Time // the wait ends by then in any case
}

func (s *Store) replyWait(links *links, since time.Time) replyWait {
	limit := s.limit.get()
	return replyWait{links: links, since: since, due: since.Add(limit), end: since.Add(limit + s.patience)}
}

// extend returns how much longer to wait when the wait is due, or 0 or less to stop. The wait ends when
// Redis has owed a reply, to this request or to an earlier one, for the limit. While Redis owes nothing,
// the request is waiting for this process or for its turn.
func (v *replyWait) extend(limit time.Duration) time.Duration {
	now := time.Now()
	if !now.Before(v.end) {
		return 0
	}
	late := now.Sub(v.due)
	rest := min(late, limit)
	if late <= jitter { // otherwise this process was not running
		silent := v.links.silence()
		if silent >= limit {
			v.links.observe(silent)
		}
		rest = limit - silent
	}
	rest = min(max(rest, v.since.Add(limit).Sub(now)), v.end.Sub(now))
	v.due = now.Add(rest)
	return rest
}

// wait waits for the result of the ticket, until its caller gives up or Redis exceeds its limit.
func (c *pendingTicket) wait(ctx context.Context, s *Store) error {
	if c.isFinished() {
		return nil
	}
	s.watch.add(&c.watchEntry, c.since+int64(s.limit.at(c.since/int64(limitWindow))))
	err := c.await(ctx, s)
	s.watch.remove(&c.watchEntry)
	return err
}

func (c *pendingTicket) await(ctx context.Context, s *Store) error {
	var v replyWait
	for {
		var err error
		select {
		case reason := <-c.wake:
			if reason == finished {
				return nil
			}
			err = context.DeadlineExceeded
		case <-ctx.Done():
			err = ctx.Err()
		}
		if c.isFinished() { // in the meantime
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if v.links == nil {
			v = s.replyWait(s.conns.Load().wires, epoch.Add(time.Duration(c.since)))
			v.due = epoch.Add(time.Duration(c.due))
		}
		rest := v.extend(s.limit.get())
		if rest <= 0 {
			return err
		}
		s.watch.add(&c.watchEntry, clock()+int64(rest))
	}
}

// isFinished reports whether the ticket has its result.
func (c *pendingTicket) isFinished() bool {
	for {
		select {
		case reason := <-c.wake:
			if reason == finished {
				return true
			}
		default:
			return false
		}
	}
}

// withLimit returns a context that ends when Redis exceeds its limit.
func (s *Store) withLimit(ctx context.Context, links *links) (context.Context, context.CancelFunc) {
	v := s.replyWait(links, time.Now())
	ctx, cancel := context.WithCancelCause(ctx)
	var alarm *time.Timer
	alarm = time.AfterFunc(time.Hour, func() {
		if ctx.Err() != nil {
			return
		}
		if rest := v.extend(s.limit.get()); rest > 0 {
			alarm.Reset(rest)
		} else {
			cancel(context.DeadlineExceeded)
		}
	})
	alarm.Reset(time.Until(v.due))
	return timeoutContext{ctx}, func() {
		cancel(nil)
		alarm.Stop()
	}
}

// timeoutContext is a context that reports a silent Redis as a timeout, not as a cancellation.
type timeoutContext struct{ context.Context }

func (a timeoutContext) Err() error {
	err := a.Context.Err()
	if err != nil && errors.Is(context.Cause(a.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
