package grpcclient_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/grpcclient"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// Package client tests what both clients have in common. The tests here cover what only gRPC has.

// patience bounds the wait for events that must happen: no test depends on how soon.
const patience = 30 * time.Second

// service gives preset answers, and keeps the requests.
type service struct {
	penstockv1.UnimplementedDecisionsServer
	verdict *penstockv1.Verdict
	err     error
	settle  *penstockv1.SettleRequest
}

func (s *service) Check(context.Context, *penstockv1.CheckRequest) (*penstockv1.Verdict, error) {
	return s.verdict, s.err
}

func (s *service) CheckBatch(context.Context, *penstockv1.CheckBatchRequest) (*penstockv1.CheckBatchResponse, error) {
	return &penstockv1.CheckBatchResponse{Results: []*penstockv1.Verdict{s.verdict}}, s.err
}

func (s *service) Settle(_ context.Context, r *penstockv1.SettleRequest) (*penstockv1.Verdict, error) {
	s.settle = r
	return s.verdict, s.err
}

func connect(t *testing.T, s *service) *grpcclient.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	penstockv1.RegisterDecisionsServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	c, err := grpcclient.New(listener.Addr().String(), grpcclient.Options{
		Timeout: patience, ResponseHeaders: []string{"X-Cost", "X-Other"},
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: patience}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.Stop()
		<-served
	})
	return c
}

// The named headers of a response are sent, so that rules can take their costs from them.
func TestSettleWithResponse(t *testing.T) {
	s := &service{verdict: &penstockv1.Verdict{Allowed: true, Reason: penstockv1.Reason_REASON_OK, Quality: penstockv1.Quality_QUALITY_EXACT}}
	response := &penstock.Response{Bytes: 12, Header: func(name string) string {
		return map[string]string{"X-Cost": "37", "X-Secret": "s"}[name]
	}}
	var v penstock.Verdict
	conclusion := penstock.Conclusion{Reservation: "r", Verb: penstock.Settle, Cost: 1, Response: response}
	if err := connect(t, s).Conclude(t.Context(), &conclusion, &v); err != nil || !v.Allowed {
		t.Fatalf("%+v, %v", v, err)
	}
	want := &penstockv1.SettleRequest{Reservation: "r", Response: &penstockv1.Response{Bytes: 12, Headers: map[string]string{"x-cost": "37"}}}
	if diff := cmp.Diff(want, s.settle, protocmp.Transform()); diff != "" {
		t.Errorf("-want +sent\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	s := &service{verdict: &penstockv1.Verdict{
		Allowed: true, Reason: penstockv1.Reason_REASON_OK, Quality: penstockv1.Quality_QUALITY_EXACT,
		Limits: []*penstockv1.LimitVerdict{{Count: 5, Limit: 20, Refill: penstockv1.Refill_REFILL_INTERVAL}, {}},
	}}
	var v penstock.Verdict
	if err := connect(t, s).Decide(t.Context(), new(penstock.Call), &v); err != nil || v.Limits[0].Count != 5 ||
		v.Limits[0].Refill != penstock.Interval || v.Limits[1].Refill != penstock.Continuous {
		t.Errorf("%+v, %v: want a count of 5 that is refilled at once, and a limit that is not", v, err)
	}
}

// A status that Penstock never sends does not make the request invalid.
func TestSomethingElseThere(t *testing.T) {
	for name, s := range map[string]*service{
		"an empty answer": {verdict: new(penstockv1.Verdict)},
		"not found":       {err: status.Error(codes.NotFound, "no")},
		"closed":          {err: status.Error(codes.FailedPrecondition, "no")},
		"overloaded":      {err: status.Error(codes.ResourceExhausted, "no")},
		"not permitted":   {err: status.Error(codes.PermissionDenied, "no")},
		"too few answers": {verdict: &penstockv1.Verdict{Reason: 99, Quality: 99, RetryAfterMs: proto.Int64(-1 << 63)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s)
			verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
			c.DecideEach(t.Context(), make([]penstock.Call, 2), verdicts, errs)
			for i := range verdicts {
				if !verdicts[i].Allowed || verdicts[i].Reason != penstock.ReasonStoreError || !errors.Is(errs[i], penstock.ErrUnavailable) || errors.Is(errs[i], penstock.ErrInvalid) {
					t.Errorf("%+v, %v: want it allowed, unchecked", verdicts[i], errs[i])
				}
			}
		})
	}
}
