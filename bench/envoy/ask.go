package envoy

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock/bench/lab"
)

// Requests cost the load generator as little as possible: they are encoded before the load, and only the first field of
// a response is read.

// A traffic is a kind of requests that must all get the same answer.
type traffic struct {
	name string // also the descriptor's key
	want rlsv3.RateLimitResponse_Code
	warm int // requests per key before the answer is as expected
	of   int // divides the number of keys: few clients are denied, again and again
}

var traffics = []traffic{
	{"allowed", rlsv3.RateLimitResponse_OK, 1, 1},
	{"denied", rlsv3.RateLimitResponse_OVER_LIMIT, 2, 10},
}

// request returns the request about a key.
func request(name, key string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "bench", Descriptors: []*descriptorv3.RateLimitDescriptor{
		{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: name, Value: key}}},
	}}
}

// requests returns encoded requests, each about a key of its own.
func (t traffic) requests(keys int) (all []string) {
	for _, key := range lab.Keys(max(1, keys/t.of)) {
		all = append(all, string(lab.Must(proto.Marshal(request(t.name, key)))))
	}
	return all
}

// rawCodec passes messages through unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], data...)
	return nil
}

// target returns a server under one kind of traffic, in the form that the loads use. A key is an encoded request.
func (s *server) target(t traffic) lab.Limiter {
	var next atomic.Uint64
	connect := func() *grpc.ClientConn { return s.conns[next.Add(1)%uint64(len(s.conns))] }
	ask := func(ctx context.Context, conn *grpc.ClientConn, request string, response *[]byte) error {
		text := []byte(request)
		err := conn.Invoke(ctx, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, &text, response, grpc.ForceCodec(rawCodec{}))
		if err == nil && bytes.Contains(*response, []byte("quality")) {
			err = fmt.Errorf("answered without Redis: %q", *response)
		}
		return err
	}
	expected := []byte{1 << 3, byte(t.want)} // the overall code, which all servers encode first
	return lab.Limiter{
		Caller: func() lab.TakeFunc {
			conn := connect()
			var response []byte
			return func(ctx context.Context, request string) (bool, error) {
				err := ask(ctx, conn, request, &response)
				if err == nil && !bytes.HasPrefix(response, expected) {
					err = fmt.Errorf("answered %q, want %v", response, t.want)
				}
				return err == nil, err
			}
		},
		// Warm creates a key's counter and brings it to the state with the expected answer.
		Warm: func(ctx context.Context, request string) (bool, error) {
			conn := connect()
			for range t.warm {
				if err := ask(ctx, conn, request, new([]byte)); err != nil {
					return false, err
				}
			}
			return true, nil
		},
	}
}
