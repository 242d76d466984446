package envoy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock/bench/lab"
)

// Requests cost the load generator as little as possible: a request is a copy of one that was encoded earlier,
// with another key, and as little as possible of a response is read.

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

// keyLength is the length of every key, so that requests differ in nothing else.
const keyLength = 16

// A requestTemplate has a placeholder for the key.
type requestTemplate struct {
	text []byte
	at   int
}

func encode(name string) requestTemplate {
	place := strings.Repeat("\x01", keyLength)
	text := lab.Must(proto.Marshal(request(name, place)))
	return requestTemplate{text, bytes.Index(text, []byte(place))}
}

func (e requestTemplate) with(key string) []byte {
	text := bytes.Clone(e.text)
	copy(text[e.at:], key)
	return text
}

// rawCodec passes messages through unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], data...)
	return nil
}

// codeOf returns the overall code of a response.
func codeOf(response []byte) (rlsv3.RateLimitResponse_Code, error) {
	for len(response) > 0 {
		field, kind, n := protowire.ConsumeTag(response)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		response = response[n:]
		if field == 1 && kind == protowire.VarintType {
			code, n := protowire.ConsumeVarint(response)
			return rlsv3.RateLimitResponse_Code(code), protowire.ParseError(min(n, 0))
		}
		if n = protowire.ConsumeFieldValue(field, kind, response); n < 0 {
			return 0, protowire.ParseError(n)
		}
		response = response[n:]
	}
	return 0, errors.New("a response without a code")
}

// loadTarget is a server under one kind of traffic, in the form that the loads use.
type loadTarget struct {
	conns   []*grpc.ClientConn
	next    atomic.Uint64
	traffic traffic
	encoded requestTemplate
}

func newLoadTarget(s *server, t traffic) lab.Limiter {
	a := &loadTarget{conns: s.conns, traffic: t, encoded: encode(t.name)}
	return lab.Limiter{Caller: a.Caller, Warm: a.Warm}
}

// Caller uses the connections in turn.
func (a *loadTarget) Caller() lab.TakeFunc {
	conn := a.conns[a.next.Add(1)%uint64(len(a.conns))]
	var response []byte
	return func(ctx context.Context, key string) (bool, error) {
		code, err := a.ask(ctx, conn, key, &response)
		if err == nil && code != a.traffic.want {
			err = fmt.Errorf("answered %v, want %v", code, a.traffic.want)
		}
		return err == nil, err
	}
}

func (a *loadTarget) ask(ctx context.Context, conn *grpc.ClientConn, key string, response *[]byte) (rlsv3.RateLimitResponse_Code, error) {
	text := a.encoded.with(key)
	if err := conn.Invoke(ctx, rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, &text, response, grpc.ForceCodec(rawCodec{})); err != nil {
		return 0, err
	}
	if bytes.Contains(*response, []byte("quality")) {
		return 0, errors.New("answered without Redis")
	}
	return codeOf(*response)
}

// Warm creates a key's counter and brings it to the state with the expected answer.
func (a *loadTarget) Warm(ctx context.Context, key string) (bool, error) {
	conn := a.conns[a.next.Add(1)%uint64(len(a.conns))]
	var response []byte
	for range a.traffic.warm {
		if _, err := a.ask(ctx, conn, key, &response); err != nil {
			return false, err
		}
	}
	return true, nil
}
