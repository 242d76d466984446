package envoy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// bareGRPC is a server that decides nothing: the least that a decision over gRPC costs.
const bareGRPC = "bare grpc-go server"

// childVariable is the environment variable with the address at which a child serves.
const childVariable = "PENSTOCK_TEST_BENCH_RLS"

// ServeIfChild turns this process into the bare server, and does not return, if a parent started it as one. A program
// that uses Measure calls it first.
func ServeIfChild() {
	addr := os.Getenv(childVariable)
	if addr == "" {
		return
	}
	l, err := net.Listen("tcp", addr)
	if err == nil {
		s := grpc.NewServer()
		rlsv3.RegisterRateLimitServiceServer(s, bareService{})
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		err = s.Serve(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func bare(_, addr, _ string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+addr)
	return cmd, nil
}

type bareService struct {
	rlsv3.UnimplementedRateLimitServiceServer
}

// ShouldRateLimit gives the answer that the traffic expects, in the form of a decision.
func (bareService) ShouldRateLimit(_ context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	code := rlsv3.RateLimitResponse_OK
	if r.Descriptors[0].Entries[0].Key == "denied" {
		code = rlsv3.RateLimitResponse_OVER_LIMIT
	}
	return &rlsv3.RateLimitResponse{OverallCode: code, Statuses: []*rlsv3.RateLimitResponse_DescriptorStatus{{
		Code: code, LimitRemaining: 1,
		CurrentLimit: &rlsv3.RateLimitResponse_RateLimit{RequestsPerUnit: 100, Unit: rlsv3.RateLimitResponse_RateLimit_YEAR},
	}}}, nil
}
