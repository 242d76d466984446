package envoy

import (
	"cmp"
	"flag"
	"os"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock/bench/lab"
)

func response() *rlsv3.RateLimitResponse {
	return &rlsv3.RateLimitResponse{
		OverallCode:          rlsv3.RateLimitResponse_OVER_LIMIT,
		Statuses:             []*rlsv3.RateLimitResponse_DescriptorStatus{{Code: rlsv3.RateLimitResponse_OVER_LIMIT, DurationUntilReset: durationpb.New(time.Second)}},
		ResponseHeadersToAdd: []*corev3.HeaderValue{{Key: "limit", Value: "1"}, {Key: "remaining", Value: "2"}, {Key: "reset", Value: "3000"}},
		DynamicMetadata:      &structpb.Struct{Fields: map[string]*structpb.Value{"domain": structpb.NewStringValue("a")}},
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

var (
	requests = flag.Int("requests", 0, "how many the comparison sends, of all settings")
	seed     = flag.Uint64("seed", 2, "of the random requests")
)

// Penstock answers as envoyproxy/ratelimit does.
func TestCompare(t *testing.T) {
	if *requests == 0 && os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("builds two servers and runs them: with -requests 3000, or PENSTOCK_TEST_LONG=1")
	}
	done, err := lab.Run(lab.Bench{Context: t.Context()}, func(b *lab.Bench) *comparison { return compare(b, cmp.Or(*requests, 3000), *seed) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests with %d statuses: %d denied, %d refused; %d metrics compared", done.requests, done.statuses, done.denied, done.refused, done.metrics)
	if done.denied < done.requests/10 || done.refused < done.requests/300 || done.metrics < 100 {
		t.Error("the comparison is not worth much")
	}
	for _, d := range done.differences {
		t.Error(d)
	}
}
