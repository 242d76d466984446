package envoy

import (
	"os"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock/bench/lab"
)

// The encoded request equals the original.
func TestEncoded(t *testing.T) {
	const key = "key-000000000042"
	var got rlsv3.RateLimitRequest
	if err := proto.Unmarshal(encode("allowed").with(key), &got); err != nil || !proto.Equal(&got, request("allowed", key)) {
		t.Errorf("%v, %v", &got, err)
	}
}

func response() *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{
		OverallCode:          rlsv3.RateLimitResponse_OVER_LIMIT,
		Statuses:             []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: rlsv3.RateLimitResponse_OVER_LIMIT, DurationUntilReset: durationpb.New(time.Second)}},
		ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "limit", Value: "1"}, {Key: "remaining", Value: "2"}, {Key: "reset", Value: "3000"}},
		DynamicMetadata:      &structpb.Struct{Fields: map[string]*structpb.Value{"domain": structpb.NewStringValue("a")}},
	}
}

func TestCodeOf(t *testing.T) {
	text, err := proto.Marshal(response())
	if err != nil {
		t.Fatal(err)
	}
	other, err := proto.Marshal(&rlsv3.RateLimitResponse{RawBody: []byte("c")})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{text, append(other, text...)} {
		if got, err := codeOf(text); err != nil || got != rlsv3.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "\x08", "\xff", "\x12\x05a"} {
		if got, err := codeOf([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

// Every part of an answer that must be the same makes a difference.
func TestDifferencesAreSeen(t *testing.T) {
	for name, spoil := range map[string]func(*rlsv3.RateLimitResponse){
		"code":      func(r *rlsv3.RateLimitResponse) { r.OverallCode = 0 },
		"status":    func(r *rlsv3.RateLimitResponse) { r.Statuses[0].Code = 0 },
		"remaining": func(r *rlsv3.RateLimitResponse) { r.Statuses[0].LimitRemaining++ },
		"statuses":  func(r *rlsv3.RateLimitResponse) { r.Statuses = append(r.Statuses, r.Statuses[0]) },
		"header":    func(r *rlsv3.RateLimitResponse) { r.ResponseHeadersToAdd[0].Value += "0" },
		"reset":     func(r *rlsv3.RateLimitResponse) { r.ResponseHeadersToAdd[2].Value += "0" },
		"body":      func(r *rlsv3.RateLimitResponse) { r.RawBody = []byte("x") },
		"metadata":  func(r *rlsv3.RateLimitResponse) { r.DynamicMetadata.Fields["domain"] = structpb.NewStringValue("x") },
	} {
		other := response()
		if !same(canonical(response()), canonical(other)) {
			t.Error("an answer differs from itself")
		}
		if spoil(other); same(canonical(response()), canonical(other)) {
			t.Errorf("another %s is not seen", name)
		}
	}
}

func TestCompare(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("builds two servers and runs them: with PENSTOCK_TEST_LONG=1")
	}
	done, err := lab.Run(lab.Bench{Context: t.Context()}, func(b *lab.Bench) *Comparison { return Compare(b, 3000, 2) })
	if err != nil {
		t.Fatal(err)
	}
	if done.Denied < 300 || done.Refused < 10 || done.Metrics < 100 {
		t.Errorf("the comparison is not worth much: %+v", done)
	}
	for _, d := range done.Differences {
		t.Error(d)
	}
}
