package grpcclient

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/internal/remote"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// Options of a client.
type Options struct {
	Timeout time.Duration  // of one request; default 500 ms. The context may end it sooner.
	OnError client.OnError // default Allow

	// ResponseHeaders are the response headers that are sent with conclusions: those that rules take costs
	// from.
	ResponseHeaders []string

	// Dial holds at least the transport credentials, without which grpc does not connect.
	Dial []grpc.DialOption
}

// maxReply bounds the reply to a thousand requests under many rules.
const maxReply = 64 << 20

// A Client asks over one connection, and reconnects when it is lost. It is safe for concurrent use.
type Client struct {
	target          string
	conn            *grpc.ClientConn
	decisions       penstockv1.DecisionsClient
	timeout         time.Duration
	onError         client.OnError
	responseHeaders []string
}

var (
	_ penstock.Decider   = (*Client)(nil)
	_ penstock.Concluder = (*Client)(nil)
)

// New returns a client of the service at a target like penstock:8081 or dns:///penstock:8081. It does not
// connect before the first request.
func New(target string, o Options) (*Client, error) {
	if o.Timeout < 0 || o.OnError > client.Deny {
		return nil, fmt.Errorf("new client of %s: %w: timeout %v is negative, or on-error %d unknown", target, penstock.ErrInvalid, o.Timeout, o.OnError)
	}
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		// Never send a charge twice, even if the service configuration in DNS allows retries.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
		// Requests are not limited until it has reconnected: the default backoff of up to two minutes is too
		// long.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("new client of %s: %w: %w", target, penstock.ErrInvalid, err)
	}
	return &Client{
		target: target, conn: conn, decisions: penstockv1.NewDecisionsClient(conn),
		timeout: cmp.Or(o.Timeout, remote.DefaultTimeout), onError: o.OnError, responseHeaders: o.ResponseHeaders,
	}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Decide asks for a verdict. Its instants are of this machine's clock.
func (c *Client) Decide(ctx context.Context, call *penstock.Call, v *penstock.Verdict) error {
	err := c.decide(ctx, call, v)
	if err != nil {
		err = fmt.Errorf("decide at %s: %w", c.target, err)
		c.onError.Without(v, err)
	}
	return err
}

func (c *Client) decide(ctx context.Context, call *penstock.Call, v *penstock.Verdict) error {
	request, err := checkRequest(call)
	if err != nil {
		return err
	}
	var answer *penstockv1.Verdict
	if call.Reserve {
		answer, err = invoke(ctx, c, c.decisions.Reserve, &penstockv1.ReserveRequest{Call: request, TtlMs: milliseconds(call.TTL)}, wire.MaxBody, deciding)
	} else {
		answer, err = invoke(ctx, c, c.decisions.Check, request, wire.MaxBody, deciding)
	}
	if err != nil {
		return err
	}
	return fill(v, answer)
}

// DecideEach asks for a verdict on each request, in as few messages as the service accepts. The slices must
// have the same length.
func (c *Client) DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	together := func(b remote.Batch) error {
		if err := c.decideTogether(ctx, b); err != nil {
			return fmt.Errorf("decide %d calls at %s: %w", len(b.Calls), c.target, err)
		}
		return nil
	}
	c.onError.Each(remote.Batch{Calls: calls, Verdicts: verdicts, Errs: errs}, together, func(call *penstock.Call, v *penstock.Verdict) error {
		return c.Decide(ctx, call, v)
	})
}

func (c *Client) decideTogether(ctx context.Context, b remote.Batch) error {
	request := &penstockv1.CheckBatchRequest{Calls: make([]*penstockv1.CheckRequest, len(b.Calls))}
	for i := range b.Calls {
		var err error
		if request.Calls[i], err = checkRequest(&b.Calls[i]); err != nil {
			return err
		}
	}
	reply, err := invoke(ctx, c, c.decisions.CheckBatch, request, wire.MaxBatchBody, deciding)
	if err != nil {
		return err
	}
	if len(reply.Results) != len(b.Calls) {
		return fmt.Errorf("%w: %d verdicts for %d calls", remote.ErrUnavailable, len(reply.Results), len(b.Calls))
	}
	for i, result := range reply.Results {
		if err := fill(&b.Verdicts[i], result); err != nil {
			return err
		}
		b.Errs[i] = nil
		if result.Error != "" {
			b.Errs[i] = fmt.Errorf("%w: %s", penstock.ErrInvalid, result.Error)
		}
	}
	return nil
}

// Conclude settles, releases or renews a reservation. After an error that wraps [penstock.ErrUnavailable] it
// may be sent again: it takes effect once.
func (c *Client) Conclude(ctx context.Context, conclusion *penstock.Conclusion, v *penstock.Verdict) error {
	v.Reset()
	answer, err := c.conclude(ctx, conclusion)
	if err == nil {
		err = fill(v, answer)
	}
	if err != nil {
		return fmt.Errorf("%v a reservation at %s: %w", conclusion.Verb, c.target, err)
	}
	return nil
}

func (c *Client) conclude(ctx context.Context, conclusion *penstock.Conclusion) (*penstockv1.Verdict, error) {
	id := conclusion.Reservation
	switch conclusion.Verb {
	case penstock.Settle:
		request := &penstockv1.SettleRequest{Reservation: id}
		if conclusion.Response != nil {
			request.Response = c.response(conclusion.Response)
		} else {
			request.Cost = &conclusion.Cost
		}
		return invoke(ctx, c, c.decisions.Settle, request, wire.MaxBody, concluding)
	case penstock.Renew:
		return invoke(ctx, c, c.decisions.Renew, &penstockv1.RenewRequest{Reservation: id, TtlMs: milliseconds(conclusion.TTL)}, wire.MaxBody, concluding)
	case penstock.Release:
		return invoke(ctx, c, c.decisions.Release, &penstockv1.ReleaseRequest{Reservation: id}, wire.MaxBody, concluding)
	}
	return nil, fmt.Errorf("%w: unknown verb", penstock.ErrInvalid)
}

// The causes of status codes, for decisions and conclusions. Any other code means that the service did not
// answer.
var (
	deciding   = map[codes.Code]error{codes.InvalidArgument: penstock.ErrInvalid}
	concluding = map[codes.Code]error{
		codes.InvalidArgument:    penstock.ErrInvalid,
		codes.NotFound:           penstock.ErrNoReservation,
		codes.FailedPrecondition: penstock.ErrClosed,
	}
)

// invoke sends one request. It does not send a request that is too large for the service.
func invoke[Q proto.Message, A any](ctx context.Context, c *Client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q, most int, causes map[codes.Code]error) (answer A, err error) {
	if size := proto.Size(request); size > most {
		return answer, fmt.Errorf("%w: the request has %d bytes; at most %d", penstock.ErrInvalid, size, most)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err = method(ctx, request)
	if err != nil {
		return answer, fmt.Errorf("%w: %w", cmp.Or(causes[status.Code(err)], remote.ErrUnavailable), err)
	}
	return answer, nil
}
