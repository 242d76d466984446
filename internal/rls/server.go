package rls

import (
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
	return &Server{Options: o}, nil
}

// Shadowed returns how many requests were allowed only because of Options.Shadow.
func (s *Server) Shadowed() int64 { return s.shadowed.Load() }

// Undecided returns how many gRPC requests could not be decided.
func (s *Server) Undecided() int64 { return s.undecided.Load() }

// Services are the names that health checks use for the services of Register: their own names, and the one that
// envoyproxy/ratelimit uses.
var Services = []string{rlsv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName, "ratelimit"}

// Register adds both services to a server, whose limit on messages bounds the cost of a request.
func (s *Server) Register(to grpc.ServiceRegistrar) {
	rlsv3.RegisterRateLimitServiceServer(to, limits{s: s})
	authv3.RegisterAuthorizationServer(to, checks{s: s})
}

// limits is the rate limit service.
type limits struct {
	rlsv3.UnimplementedRateLimitServiceServer
	s *Server
}

func (l limits) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	out, err := l.s.limit(ctx, r)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, penstock.ErrInvalid):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	l.s.undecided.Add(1)
	// The error can name servers, so it is only logged.
	l.s.Log.ErrorContext(ctx, "descriptors not decided", "domain", r.Domain, "error", err)
	return nil, status.Error(codes.Unavailable, "the store is unavailable and there is no fallback")
}

// limit answers a request. Descriptors that cannot be counted do not keep the others from being counted: they are not
// limited, as in envoyproxy/ratelimit.
func (s *Server) limit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	request, positions, mistakes := s.read(r)
	if mistakes != nil {
		s.invalidLimits.add(ctx, s, rateLimit, mistakes)
	}
	if request == nil {
		return nil, mistakes
	}
	ctx, cancel := inTime(ctx)
	defer cancel()
	answers, err := s.Limiter.Limit(ctx, request)
	if err != nil {
		return nil, err
	}
	if positions != nil {
		answers.spread(positions, len(r.Descriptors))
	}
	if s.Shadow && !answers.Allowed {
		answers.Allowed = true
		s.shadowed.Add(1)
	}
	return s.response(r, answers), nil
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
