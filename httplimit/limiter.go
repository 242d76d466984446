package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/held"
	"github.com/penstock-io/penstock/internal/renewal"
)

// Options of a Limiter. The zero value is ready to use.
type Options struct {
	ReaderOptions
	WriterOptions

	// MaxHeld bounds how many requests leaky buckets hold at the same time, by default 10,000. MaxHeldBytes
	// bounds the memory that they take, by default 128 MiB: 16 KiB each, their headers, and of their bodies
	// at most 4 KiB, over HTTP/2 64 KiB. For HTTP/2 this holds if the server's MaxReceiveBufferPerStream is
	// 64 KiB. A rule may hold as much as is still free: one rule at most half of both. Requests beyond that
	// are answered 503.
	MaxHeld      int
	MaxHeldBytes int64

	// OnError gets the decider's errors. They do not change the verdict, which already follows the failure
	// policies. It also gets each [*RequestError] that has a cause, such as the error of a function passed to
	// [ByFunc] or set as Claims: the client is not told the cause.
	OnError func(*http.Request, error)
}

// A Limiter is middleware in front of handlers. It is safe for concurrent use.
type Limiter struct {
	decider   penstock.Decider
	concluder penstock.Concluder // nil: what the decider reserves cannot be concluded
	early     earlyDecider       // nil: every request is decided with its body
	reader    *Reader
	writer    *Writer
	onError   func(*http.Request, error)
	held      *held.Queue
	turns     sync.Pool // of *turn
}

// A requestState is the memory for one request, reused for the next.
type requestState struct {
	call    penstock.Call
	verdict penstock.Verdict
}

// New returns a limiter that asks the decider: an engine, or a client of a remote Penstock.
func New(d penstock.Decider, o Options) (*Limiter, error) {
	o.MaxDelay = cmp.Or(o.MaxDelay, penstock.AnyDelay)
	if o.OnError == nil {
		o.OnError = func(*http.Request, error) {}
	}
	reader, readerErr := NewReaderFor(d, o.ReaderOptions)
	writer, writerErr := NewWriter(o.WriterOptions)
	queue, queueErr := held.New(held.Options{MaxRequests: o.MaxHeld, MaxBytes: o.MaxHeldBytes})
	var own error
	if d == nil {
		own = fmt.Errorf("%w: it needs a decider", penstock.ErrInvalid)
	}
	if err := errors.Join(own, readerErr, writerErr, queueErr); err != nil {
		return nil, fmt.Errorf("new HTTP limiter: %w", err)
	}
	l := &Limiter{decider: d, reader: reader, writer: writer, onError: o.OnError, held: queue}
	l.concluder, _ = d.(penstock.Concluder)
	l.early, _ = d.(earlyDecider)
	l.turns.New = func() any { return new(requestState) }
	return l, nil
}

// Wrap returns a handler that passes allowed requests to next. It holds the requests of a leaky bucket and
// lets them proceed in the order of their departure. If a client disconnects while its request is held, the
// request never reaches next; over HTTP/1.1 with a body above 4 KiB, that is noticed only when the request
// proceeds.
//
// What a request reserved is renewed while it runs, and settled when next returns, with the cost that the
// response contains. If next panics before it has answered, the reservation is released: nothing was served.
// A client that disconnects before the response begins is charged the estimate: next may have done the work.
func (l *Limiter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		t := l.turns.Get().(*requestState)
		admitted := l.admit(rw, req, t)
		if b, ok := req.Body.(*bufferedBody); ok {
			defer b.release()
		}
		if admitted {
			l.serve(next, rw, req, t)
		}
		l.turns.Put(t) // not after a panic: another goroutine may still use it
	})
}

// An earlyDecider decides requests before their body is read, if what is known by then is enough. Only with peek it may
// take as long as Decide.
type earlyDecider interface {
	DecideEarly(ctx context.Context, c *penstock.Call, v *penstock.Verdict, peek bool) bool
}

// read reads the request, up to its body if it can be decided without.
func (l *Limiter) read(req *http.Request, t *requestState) (decided bool, err error) {
	w, err := l.reader.readHead(req, &t.call)
	if err == nil && w.body != nil && l.reader.options.ReadsBody(&t.call) {
		if l.early != nil && hasBody(req) && l.early.DecideEarly(req.Context(), &t.call, &t.verdict, isCostly(req)) {
			return true, nil
		}
		err = w.body.read(l.reader, req, &t.call)
	}
	if err != nil {
		return false, err
	}
	return false, l.reader.options.Key.add(req, &t.call)
}

// admit decides the request, and answers it if it must not proceed.
func (l *Limiter) admit(rw http.ResponseWriter, req *http.Request, t *requestState) bool {
	v := &t.verdict
	decided, err := l.read(req, t)
	if err != nil {
		if bad := (*RequestError)(nil); !errors.As(err, &bad) || bad.Err != nil {
			l.onError(req, err)
		}
		l.writer.Refuse(rw, req, err)
		return false
	}
	if !decided {
		err = l.decider.Decide(req.Context(), &t.call, v)
	}
	if err != nil {
		l.onError(req, err)
		switch {
		case errors.Is(err, penstock.ErrInvalid):
			l.writer.Refuse(rw, req, err)
			return false
		case req.Context().Err() != nil: // the client has disconnected: that must not be a way around the limits
			l.writer.unavailable(rw, req, "The request was cancelled before it was decided")
			return false
		}
	}
	if !v.Allowed {
		l.writer.Deny(rw, req, v)
		return false
	}
	return true
}

// serve passes the request to next after its delay, and concludes it in any case.
func (l *Limiter) serve(next http.Handler, rw http.ResponseWriter, req *http.Request, t *requestState) {
	v := &t.verdict
	r := &response{ResponseWriter: rw, writer: l.writer, verdict: v, head: req.Method == http.MethodHead, unserved: true}
	r.metered = l.newMetered(req, v)
	stop := l.keepReserved(req, v)
	served, settled := false, false
	if v.SettleEarly {
		r.early = func() {
			stop()
			settled = true
			l.settleEarly(req, t, r)
		}
	}
	defer func() { // without recover, so that a panic is reported with its own stack
		defer r.metered.close()
		isGone := req.Context().Err() != nil
		if served {
			r.beginUnwritten(isGone)
		}
		if settled || v.Reservation == "" {
			return
		}
		stop()
		c := penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Release}
		if !r.unserved && (r.begun || isGone) {
			c.Verb, c.Cost, c.Response = penstock.Settle, t.call.Cost, r.outcome(isGone, served)
		}
		l.conclude(req, &c, new(penstock.Verdict))
	}()
	if v.Delay > 0 {
		if err := l.hold(req, v); err != nil {
			l.onError(req, err)
			l.writer.unavailable(rw, req, "This request cannot be queued")
			return
		}
	}
	r.unserved = false
	if v.Reservation != "" {
		r.started = time.Now()
	}
	next.ServeHTTP(r, r.metered.readable(req))
	served = true
}

// Unserved tells the limiters behind the response that the request was not processed, because the upstream
// server was never reached: what the request reserved is released, not settled. Call it from the handler's
// goroutine.
func Unserved(rw http.ResponseWriter) {
	for rw != nil {
		if r, ok := rw.(*response); ok {
			r.unserved = true
		}
		wrapper, _ := rw.(interface{ Unwrap() http.ResponseWriter })
		if wrapper == nil {
			return
		}
		rw = wrapper.Unwrap()
	}
}

// keepReserved renews what the request reserved, if anything, until stop is called.
func (l *Limiter) keepReserved(req *http.Request, v *penstock.Verdict) (stop func()) {
	if l.concluder == nil || v.Reservation == "" {
		return func() {}
	}
	return renewal.Keep(req.Context(), l.concluder, v, func(err error) { l.onError(req, err) })
}

// concludeWithin is how long a conclusion may take: the client waits for the end of its response.
const concludeWithin = 5 * time.Second

// conclude runs even if the client has disconnected: other requests wait for the permit.
func (l *Limiter) conclude(req *http.Request, c *penstock.Conclusion, v *penstock.Verdict) {
	if l.concluder == nil || c.Reservation == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), concludeWithin)
	defer cancel()
	if err := l.concluder.Conclude(ctx, c, v); err != nil {
		l.onError(req, err)
		v.Reset()
	}
}

// settleEarly settles before the header of the response is sent, so that it has the numbers after the settlement.
func (l *Limiter) settleEarly(req *http.Request, t *requestState, r *response) {
	c := penstock.Conclusion{Reservation: t.verdict.Reservation, Cost: t.call.Cost, Response: r.outcome(req.Context().Err() != nil, false)}
	var settled penstock.Verdict
	l.conclude(req, &c, &settled)
	correct(&t.verdict, &settled)
}

// correct puts the limits of a settlement into the verdict that it corrects.
func correct(v, settled *penstock.Verdict) {
	limits := v.Limits
	v.Limits, v.Rule, v.Decision = limits[:0], "", penstock.Decision{}
	for i := range limits {
		l := limits[i] // Add writes to the same array, never ahead of this
		for k := range settled.Limits {
			if s := &settled.Limits[k]; s.Rule == l.Rule && s.Policy == l.Policy {
				l.Decision, l.Banned = s.Decision, s.Banned
			}
		}
		v.Add(l)
	}
}
