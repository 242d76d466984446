package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/held"
	"github.com/penstock-io/penstock/internal/renewal"
)

// Options configure how requests are read and what clients are told. The zero value is ready to use; it reads
// ip, method, host and path of a request.
type Options struct {
	httplimit.ReaderOptions // by default MaxDelay is what the rule's queue takes
	httplimit.WriterOptions // the headers are sent as metadata

	// MaxHeld bounds how many requests leaky buckets hold at the same time, by default 10,000. MaxHeldBytes
	// bounds the memory that they take, by default 128 MiB: 16 KiB each and the message, for a stream 64 KiB.
	// A rule may hold as much as is still free: one rule at most half of both. Requests beyond that end with
	// UNAVAILABLE.
	MaxHeld      int
	MaxHeldBytes int64

	// OnError gets the errors of decisions and conclusions. They do not change the verdict. It also gets a
	// [*httplimit.RequestError] for each request that cannot be read; its cause, such as the error of a function
	// passed to [ByFunc], is not sent to the client.
	OnError func(fullMethod string, err error)
}

// A Limiter asks for a decision before a request reaches its handler.
type Limiter struct {
	decider   penstock.Decider
	concluder penstock.Concluder // nil: the decider is not a Concluder
	reader    *httplimit.Reader
	writer    *httplimit.Writer
	onError   func(string, error)
	held      *held.Queue

	calls sync.Pool // of *call
}

// New returns a limiter. If the decider is also a [penstock.Concluder], what a request has reserved is
// renewed while it runs and settled when it ends.
func New(d penstock.Decider, o Options) (*Limiter, error) {
	o.MaxDelay = cmp.Or(o.MaxDelay, penstock.AnyDelay)
	reader, readerErr := httplimit.NewReaderFor(d, o.ReaderOptions)
	writer, writerErr := httplimit.NewWriter(o.WriterOptions)
	queue, queueErr := held.New(held.Options{MaxRequests: o.MaxHeld, MaxBytes: o.MaxHeldBytes})
	var own error
	if d == nil {
		own = fmt.Errorf("%w: it needs a decider", penstock.ErrInvalid)
	}
	if err := errors.Join(own, readerErr, writerErr, queueErr); err != nil {
		return nil, fmt.Errorf("new gRPC limiter: %w", err)
	}
	l := &Limiter{decider: d, reader: reader, writer: writer, onError: o.OnError, held: queue}
	l.concluder, _ = d.(penstock.Concluder)
	if l.onError == nil {
		l.onError = func(string, error) {}
	}
	l.calls.New = func() any { return new(call) }
	return l, nil
}

// A call is the state of one running request.
type call struct {
	penstock.Call
	penstock.Verdict
	method string
}

// Unary limits unary requests.
func (l *Limiter) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
		err = l.run(ctx, info.FullMethod, request, func(answer *handlerResponse) error {
			if answer != nil {
				ctx = answer.listen(ctx)
			}
			reply, err = handler(ctx, request)
			if answer != nil && err == nil {
				answer.sent(reply)
			}
			return err
		})
		return reply, err
	}
}

// Stream limits streams: each is one request, however many messages it has.
func (l *Limiter) Stream() grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return l.run(stream.Context(), info.FullMethod, nil, func(answer *handlerResponse) error {
			if answer != nil {
				stream = &streamAnswer{answerHeaders{stream, answer}, serverStream{stream}, answer.listen(stream.Context())}
			}
			return handler(server, stream)
		})
	}
}

// run decides a request and calls next if it is allowed. message is that of a unary request. next records in
// the answer what the handler sends; the answer is nil if it is not needed.
func (l *Limiter) run(ctx context.Context, method string, message any, next func(*handlerResponse) error) error {
	c := l.calls.Get().(*call)
	defer l.calls.Put(c)
	c.method = method
	if err := l.admit(ctx, c); err != nil {
		return err
	}
	if c.Reservation == "" || l.concluder == nil {
		if err := l.hold(ctx, c, message); err != nil {
			return err
		}
		return next(nil)
	}
	return l.runReserved(ctx, c, message, next)
}

// runReserved runs a request that has reserved something. It renews the reservation while the request is held
// and runs, and concludes it in any case. If next panics before it has sent anything, the reservation is
// released: nothing was served. A client that disconnects is charged: next may have done the work.
func (l *Limiter) runReserved(ctx context.Context, c *call, message any, next func(*handlerResponse) error) error {
	var answer handlerResponse
	var ended *status.Status // nil: it has not returned
	var started time.Time    // zero: it was not reached
	stop := renewal.Keep(ctx, l.concluder, &c.Verdict, func(err error) { l.onError(c.method, err) })
	defer func() {
		stop()
		isGone := ctx.Err() != nil
		conclusion := penstock.Conclusion{Reservation: c.Reservation, Verb: penstock.Release}
		if !started.IsZero() && (ended != nil || isGone || answer.hasBegun()) {
			conclusion.Verb, conclusion.Cost = penstock.Settle, c.Cost
			conclusion.Response = answer.response(isGone, ended, time.Since(started))
		}
		l.conclude(ctx, c.method, &conclusion)
	}()
	if err := l.hold(ctx, c, message); err != nil {
		return err
	}
	started = time.Now()
	err := next(&answer)
	ended = statusOf(err)
	return err
}

// statusOf returns the status with which gRPC ends a request whose handler returns err.
func statusOf(err error) *status.Status {
	if err == nil {
		return status.New(codes.OK, "")
	}
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}

// admit returns nil if the request may proceed, once it has been held for its delay, or the status to end it
// with.
func (l *Limiter) admit(ctx context.Context, c *call) error {
	if err := l.read(ctx, c); err != nil {
		return err
	}
	if err := l.decider.Decide(ctx, &c.Call, &c.Verdict); err != nil {
		l.onError(c.method, err)
		switch {
		case errors.Is(err, penstock.ErrInvalid):
			return status.Error(codes.InvalidArgument, "the request is invalid")
		case ctx.Err() != nil: // the client has disconnected: that must not be a way around the limits
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	l.sendHeaders(ctx, &c.Verdict)
	if !c.Allowed {
		return denial(&c.Verdict)
	}
	return nil
}

// Held returns which requests leaky buckets hold now, and how many were refused.
func (l *Limiter) Held() (s httplimit.HeldStats) {
	s.Requests, s.Bytes, s.Refused = l.held.Stats()
	return s
}

// hold delays the request of a leaky bucket. A request whose client disconnects meanwhile never proceeds.
func (l *Limiter) hold(ctx context.Context, c *call, message any) error {
	if c.Delay <= 0 {
		return nil
	}
	departs := time.Now().Add(c.Delay)
	place, err := l.held.Join(held.RuleOf(&c.Verdict), heldBytes(message))
	if err != nil {
		l.onError(c.method, err)
		return status.Error(codes.Unavailable, "too many requests are queued")
	}
	defer place.Leave()
	if err := place.Wait(ctx, departs); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// heldBytes estimates the memory of a request while it is held: its message, or what is buffered of a stream
// before it is read.
func heldBytes(message any) int64 {
	if m, ok := message.(proto.Message); ok {
		return int64(held.BytesPerRequest + proto.Size(m))
	}
	return held.BytesPerRequest + held.MaxUnread
}
