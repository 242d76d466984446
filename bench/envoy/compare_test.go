package envoy

import (
	"io"
	"os"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestCompare(t *testing.T) {
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("builds two servers and runs them: with PENSTOCK_TEST_LONG=1")
	}
	done, err := Compare(t.Context(), CompareOptions{Requests: 3000, Seed: 2, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if done.Denied < 300 || done.Refused < 10 || done.Refunds < 300 || done.Metrics < 100 {
		t.Errorf("the comparison is not worth much: %+v", done)
	}
	for _, d := range done.Differences {
		t.Error(d)
	}
}

// Every part of an answer that must be the same makes a difference.
func TestDifferencesAreSeen(t *testing.T) {
	g := generator{r: newRandom(1, 0), domain: domainOf(0), newest: true}
	m := model{newest: true}
	m.reset()
	var answer *rlsv3.RateLimitResponse
	for answer == nil || len(answer.ResponseHeadersToAdd) == 0 {
		answer, _ = m.answer(g.request()) // nil is not an answer
	}
	if !same(canonical(answer), canonical(answer)) {
		t.Error("an answer differs from itself")
	}
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
		other := proto.CloneOf(answer)
		spoil(other)
		if same(canonical(answer), canonical(other)) {
			t.Errorf("another %s is not seen", name)
		}
	}
}
