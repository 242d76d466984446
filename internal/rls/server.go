package rls

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// Options configure the server.
type Options struct {
	Limiter Limiter // for the rate limit service

	// Decider answers the external authorization service, for requests as Reader reads them.
	Decider penstock.Decider
	Reader  *httplimit.Reader

	Writer *httplimit.Writer // writes what clients are told

	// RequestMetadata adds the request to the dynamic metadata of each response, as
	// RESPONSE_DYNAMIC_METADATA of envoyproxy/ratelimit does.
	RequestMetadata bool

	// NoMetadata leaves out all dynamic metadata, unless RequestMetadata asks for it.
	NoMetadata bool

	DenialBody Body // empty: ProblemBody

	// NoDenialHeaders leaves out all headers of a denial by the rate limit service, except those of limits.
	NoDenialHeaders bool

	// LimitHeaders are added to the responses of the rate limit service; nil: none.
	LimitHeaders *LimitHeaders

	// Shadow allows every request to the rate limit service. Statuses still report which limits are exceeded.
	Shadow bool

	// NegativeHits allows refunds through descriptors with is_negative_hits. Otherwise they are invalid. The engines
	// behind Limiter must allow refunds.
	NegativeHits bool

	// RequestIDKey is the key of the entry with the request's ID, which is not part of the descriptor otherwise;
	// empty: none.
	RequestIDKey string

	Log *slog.Logger // nil: nothing is logged
}

// A Server answers Envoy. It is safe for concurrent use.
type Server struct {
	Options

	info grpc.UnaryServerInfo // of the rate limit service

	invalidLimits, invalidChecks invalidRequests
	shadowed, undecided          atomic.Int64
}

// New returns a server, or an error if the options are incomplete.
func New(o Options) (*Server, error) {
	if o.Limiter == nil || o.Decider == nil || o.Reader == nil || o.Writer == nil {
		return nil, errors.New("serve Envoy: it needs a limiter, a decider, a reader and a writer")
	}
	o.DenialBody = cmp.Or(o.DenialBody, ProblemBody)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Options: o}
	s.info = grpc.UnaryServerInfo{Server: s, FullMethod: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName}
	return s, nil
}

// Shadowed returns how many requests were allowed only because of Options.Shadow.
func (s *Server) Shadowed() int64 { return s.shadowed.Load() }

// Undecided returns how many gRPC requests could not be decided.
func (s *Server) Undecided() int64 { return s.undecided.Load() }

// Services are the names that health checks use for the services of Register: their own names, and the one that
// envoyproxy/ratelimit uses.
var Services = []string{rlsv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName, "ratelimit"}

// Register adds both services to a server of package grpcapi, whose codec decodes the requests and whose limit on
// messages bounds their cost.
func (s *Server) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&limitService, s)
	authv3.RegisterAuthorizationServer(to, checks{s: s})
}

// limitService is the rate limit service. Its requests are calls, and its responses are encoded already.
var limitService = grpc.ServiceDesc{
	ServiceName: rlsv3.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
	Metadata:    rlsv3.RateLimitService_ServiceDesc.Metadata,
}

func shouldRateLimit(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s, c := server.(*Server), calls.Get().(*call)
	if s.RequestMetadata {
		c.Generated() // which has all of the request
	}
	if err := decode(c); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return s.shouldRateLimit(ctx, c)
	}
	out, err := interceptor(ctx, c, &s.info, s.shouldRateLimit)
	if err == nil { // after a panic the call may still be in use
		c.free()
	}
	return out, err
}

func (s *Server) shouldRateLimit(ctx context.Context, request any) (any, error) {
	c := request.(*call)
	err := s.limit(ctx, c)
	switch {
	case err == nil:
		return mem.BufferSlice{mem.SliceBuffer(bytes.Clone(c.response.b))}, nil
	case errors.Is(err, penstock.ErrInvalid):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.undecided.Add(1)
	// The error can name servers, so it is only logged.
	s.Log.ErrorContext(ctx, "descriptors not decided", "domain", c.domain(), "error", err)
	return nil, status.Error(codes.Unavailable, "the store is unavailable and there is no fallback")
}

// limit answers a call. Descriptors that cannot be counted do not keep the others from being counted: they are not
// limited, as in envoyproxy/ratelimit.
func (s *Server) limit(ctx context.Context, c *call) error {
	request, positions, err := s.requestOf(ctx, c)
	if err != nil {
		return err
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	answers, err := s.Limiter.Limit(ctx, request)
	if err != nil {
		return err
	}
	if positions != nil {
		answers.spread(positions, len(c.message.Descriptors))
	}
	if s.Shadow && !answers.Allowed {
		answers.Allowed = true
		s.shadowed.Add(1)
	}
	c.response.reset()
	s.respond(&c.response, c.message, answers)
	return nil
}

// requestOf returns the request of a call, and the positions of its descriptors if some are left out.
func (s *Server) requestOf(ctx context.Context, c *call) (_ *Request, positions []int, _ error) {
	if c.message == nil {
		for i := range c.request.Descriptors {
			c.request.Descriptors[i].identify(s.RequestIDKey)
		}
		return &c.request, nil, nil
	}
	request, positions, mistakes := s.read(c.message)
	if mistakes != nil {
		s.invalidLimits.add(ctx, s, rateLimit, mistakes)
	}
	if request == nil {
		return nil, nil, mistakes
	}
	return request, positions, nil
}

// spread moves each answer to the position of its descriptor. No limit applies to the descriptors
// between them.
func (a *Answers) spread(positions []int, n int) {
	all := make([]Answer, n)
	for i := range all {
		all[i].Verdict.Allowed = true
	}
	for i, at := range positions {
		all[at] = a.Each[i]
	}
	a.Each = all
}

const (
	onTheWay = 5 * time.Millisecond // for the answer to reach Envoy, which otherwise decides by itself
	farOff   = 20 * time.Second     // of a deadline: stores answer or fail long before, so it needs no timer
)

// inTime returns a context that ends a little before the client's deadline, to leave time for the answer. Requests
// without a deadline have the one of the server, which is far off.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < farOff {
		return context.WithDeadline(ctx, end.Add(-onTheWay))
	}
	return ctx, func() {}
}
