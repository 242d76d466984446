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

// Options of a Limiter. The zero value is fit for use.
type Options struct {
	ReaderOptions
	WriterOptions

	// MaxHeld bounds how many requests leaky buckets hold at the same time, by default 10,000, and
	// MaxHeldBytes the memory that they take, by default 128 MiB: 16 KiB each, their headers, and of
	// their bodies at most 4 KiB, over HTTP/2 64 KiB. For HTTP/2 this holds if the server's
	// MaxReceiveBufferPerStream is 64 KiB. A rule may hold as much as is still free: one rule at most
	// half of both. Requests beyond that are answered 503.
	MaxHeld      int
	MaxHeldBytes int64

	// OnError gets the decider's errors. The verdict stands: it is what the rules say of them.
	OnError func(*http.Request, error)
}

// A Limiter stands before handlers. It may be used by any number of goroutines.
type Limiter struct {
	decider   penstock.Decider
	concluder penstock.Concluder // nil: nothing that the decider reserves can be concluded
	reader    *Reader
	writer    *Writer
	onError   func(*http.Request, error)
	held      *held.Queue
	turns     sync.Pool // of *turn
}

// A turn is what one call takes, kept for the next.
type turn struct {
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
	l.turns.New = func() any { return new(turn) }
	return l, nil
}

// Wrap returns a handler that lets calls through to next if they are allowed, and when they are:
// those of a leaky bucket are held, and go on in the order of their departure. A client that gives
// up while its request is held never reaches next; over HTTP/1.1 with a body above 4 KiB that is
// noticed when the request goes on.
//
// What a request reserved is renewed while it runs, and settled when next returns, with the cost that
// the response tells. If next panics before it has answered, it is released: nothing was served. A
// client that disconnects before the response begins pays the estimate: next may have done the work.
func (l *Limiter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		t := l.turns.Get().(*turn)
		if l.admit(rw, req, t) {
			l.serve(next, rw, req, t)
		}
		l.turns.Put(t) // not after a panic: nobody knows who still looks at it
	})
}

// admit decides the call, and answers it if it must not go on.
func (l *Limiter) admit(rw http.ResponseWriter, req *http.Request, t *turn) bool {
	if err := l.reader.Read(req, &t.call); err != nil {
		l.writer.Refuse(rw, req, err)
		return false
	}
	v := &t.verdict
	if err := l.decider.Decide(req.Context(), &t.call, v); err != nil {
		l.onError(req, err)
		switch {
		case errors.Is(err, penstock.ErrInvalid):
			l.writer.Refuse(rw, req, err)
			return false
		case req.Context().Err() != nil: // the client is gone: to give up must not be a way past the limits
			l.writer.unavailable(rw, req, "This call's time was up before it was decided")
			return false
		}
	}
	if !v.Allowed {
		l.writer.Deny(rw, req, v)
		return false
	}
	return true
}

// serve lets the call go on when its time has come, and concludes it however that ends.
func (l *Limiter) serve(next http.Handler, rw http.ResponseWriter, req *http.Request, t *turn) {
	v := &t.verdict
	r := &response{ResponseWriter: rw, writer: l.writer, verdict: v, head: req.Method == http.MethodHead, unserved: true}
	stop := l.keepReserved(req, v)
	served := false
	defer func() { // without recover, so that a panic is told with its own stack
		stop()
		if served {
			r.begin(http.StatusOK)
		}
		isGone := req.Context().Err() != nil
		c := penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Release}
		if !r.unserved && (r.begun || isGone) {
			c.Verb, c.Cost, c.Response = penstock.Settle, t.call.Cost, r.said(isGone)
		}
		l.conclude(req, &c)
	}()
	if v.Delay > 0 {
		if err := l.hold(req, v); err != nil {
			l.onError(req, err)
			l.writer.unavailable(rw, req, "This request cannot be held until its turn")
			return
		}
	}
	r.unserved = false
	next.ServeHTTP(r, req)
	served = true
}

// Unserved tells the limiter behind the response that nobody worked on the request, as the server that
// a handler forwards to was never reached: what the request reserved is released, not settled. It is for
// the handler's goroutine.
func Unserved(rw http.ResponseWriter) {
	for rw != nil {
		if r, ok := rw.(*response); ok {
			r.unserved = true
			return
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

// conclude is done even if the client is gone: somebody else waits for the place.
func (l *Limiter) conclude(req *http.Request, c *penstock.Conclusion) {
	if l.concluder == nil || c.Reservation == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), concludeWithin)
	defer cancel()
	var v penstock.Verdict
	if err := l.concluder.Conclude(ctx, c, &v); err != nil {
		l.onError(req, err)
	}
}
