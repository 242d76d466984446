package rls

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock/internal/problem"
)

// TestEncoder encodes random responses, and decodes them with the generated code.
func TestEncoder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := func() string { return strings.Repeat("ä", []int{0, 1, 63, 64, 100, 9000}[r.IntN(6)]) }
	number := func() uint32 { return []uint32{0, 1, 127, 128, math.MaxUint32}[r.IntN(5)] }
	var e encoder
	for range 2000 {
		want := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_Code(r.IntN(3))}
		e.reset()
		e.addNumber(overallCode, uint64(want.OverallCode))
		for range r.IntN(3) {
			s := descriptorStatus{
				code: rlsv3.RateLimitResponse_Code(r.IntN(3)), limited: r.IntN(2) == 0, name: text(), limit: number(),
				unit: rlsv3.RateLimitResponse_RateLimit_Unit(r.IntN(8)), remaining: number(), resets: r.IntN(2) == 0, reset: int64(number()),
			}
			e.addStatus(&s)
			wanted := &rlsv3.RateLimitResponse_DescriptorStatus{Code: s.code, LimitRemaining: s.remaining}
			if s.limited {
				wanted.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{Name: s.name, RequestsPerUnit: s.limit, Unit: s.unit}
			}
			if s.resets {
				wanted.DurationUntilReset = &durationpb.Duration{Seconds: s.reset}
			}
			want.Statuses = append(want.Statuses, wanted)
		}
		for range r.IntN(3) {
			name, value := text(), text()
			e.addHeader(name, value)
			want.ResponseHeadersToAdd = append(want.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: value})
		}
		switch r.IntN(3) {
		case 0:
			want.RawBody = []byte(text())
			if len(want.RawBody) == 0 {
				want.RawBody = nil
			}
			e.WriteWhole(429, []problem.Field{{Name: "A", Value: []byte("b")}, {Name: "Content-Length", Value: []byte("7")}}, want.RawBody, 0)
			want.ResponseHeadersToAdd = append(want.ResponseHeadersToAdd, &corev3.HeaderValue{Key: "A", Value: "b"})
		case 1:
			e.Header().Set("B", "c")
			e.Header().Set("Content-Length", "7")
			e.addReply()
			want.ResponseHeadersToAdd = append(want.ResponseHeadersToAdd, &corev3.HeaderValue{Key: "B", Value: "c"})
		}
		rule, reason := text(), text()
		own, err := structpb.NewStruct(map[string]any{"penstock": map[string]any{"rule": rule, "reason": reason}})
		if err != nil {
			t.Fatal(err)
		}
		switch r.IntN(3) {
		case 0:
			e.addDenial(rule, reason)
			want.DynamicMetadata = own
		case 1:
			e.addMetadata(own)
			want.DynamicMetadata = own
		}
		var got rlsv3.RateLimitResponse
		if err := proto.Unmarshal(e.b, &got); err != nil {
			t.Fatalf("%v: %v", want, err)
		}
		if !proto.Equal(&got, want) || len(got.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("got %v, want %v", &got, want)
		}
	}
}

// Metadata that cannot be encoded is left out, and the rest of the response stays.
func TestEncoderLeavesOutBadMetadata(t *testing.T) {
	var e encoder
	e.addNumber(overallCode, 1)
	e.addMetadata(&structpb.Struct{Fields: map[string]*structpb.Value{"bad": structpb.NewStringValue("\xff")}})
	e.addHeader("A", "b")
	var got rlsv3.RateLimitResponse
	if err := proto.Unmarshal(e.b, &got); err != nil || got.OverallCode != 1 || got.DynamicMetadata != nil || len(got.ResponseHeadersToAdd) != 1 {
		t.Errorf("%v, %v", &got, err)
	}
}
