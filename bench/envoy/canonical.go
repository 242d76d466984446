package envoy

import (
	"slices"
	"strconv"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// An answer is a response without the parts that may differ: the seconds left in a window, and fields that one of
// the services does not have.
type answer struct {
	text   string  // everything else
	resets []int64 // seconds, of statuses and of a header
}

// omitted are fields of the dynamic metadata that only one service has: ours, and the older quota mode of the
// version that the benchmarks are built with.
var omitted = []string{"penstock", "quotaModeEnabled", "quotaModeViolations"}

func canonical(r *rlsv3.RateLimitResponse) (a answer) {
	r = proto.CloneOf(r)
	for _, s := range r.Statuses {
		if s.DurationUntilReset != nil {
			a.resets = append(a.resets, s.DurationUntilReset.Seconds)
			s.DurationUntilReset = nil
		}
	}
	if h := r.ResponseHeadersToAdd; len(h) > 2 {
		if seconds, err := strconv.ParseInt(h[2].Value, 10, 64); err == nil {
			a.resets = append(a.resets, seconds)
			h[2].Value = ""
		}
	}
	for _, name := range omitted {
		delete(r.DynamicMetadata.GetFields(), name)
	}
	a.text = strings.ReplaceAll(protojson.Format(r), " ", "") // texts of protobuf contain random spaces
	return a
}

// same reports whether answers differ by no more than the time between two requests.
func same(a, b answer) bool {
	const patience = 60 // seconds: the machine may be busy
	return a.text == b.text && slices.EqualFunc(a.resets, b.resets, func(a, b int64) bool { return a-b <= patience && b-a <= patience })
}
