package envoy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// An answer is a response without the parts that may differ: the seconds left in a window, and fields that one of
// the services does not have.
type answer struct {
	text   string  // everything else
	resets []int64 // seconds, of statuses and of a header
}

func canonical(r *rlsv3.RateLimitResponse) answer {
	var a answer
	var b strings.Builder
	fmt.Fprint(&b, r.OverallCode)
	for _, s := range r.Statuses {
		fmt.Fprintf(&b, " | %v", s.Code)
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %q %d/%v", l.Name, l.RequestsPerUnit, l.Unit)
		}
		fmt.Fprintf(&b, " %d left", s.LimitRemaining)
		if s.DurationUntilReset != nil {
			a.resets = append(a.resets, s.DurationUntilReset.Seconds)
		}
	}
	for i, h := range r.ResponseHeadersToAdd {
		if i == 2 {
			seconds, err := strconv.ParseInt(h.Value, 10, 64)
			a.resets = append(a.resets, seconds)
			fmt.Fprintf(&b, ", %s %v", h.Key, err)
			continue
		}
		fmt.Fprintf(&b, ", %s: %s", h.Key, h.Value)
	}
	fmt.Fprintf(&b, ", body %q, request headers %v", r.RawBody, r.RequestHeadersToAdd)
	writeValue(&b, structpb.NewStructValue(r.DynamicMetadata))
	a.text = b.String()
	return a
}

// omitted are fields of the dynamic metadata that only one service has: ours, and the older quota mode of the
// version that the benchmarks are built with.
var omitted = []string{"penstock", "quotaModeEnabled", "quotaModeViolations"}

func writeValue(b *strings.Builder, v *structpb.Value) {
	switch v := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		b.WriteString("{")
		for _, name := range slices.Sorted(maps.Keys(v.StructValue.GetFields())) {
			if !slices.Contains(omitted, name) {
				b.WriteString(" " + name + ": ")
				writeValue(b, v.StructValue.Fields[name])
			}
		}
		b.WriteString("}")
	case *structpb.Value_ListValue:
		b.WriteString("[")
		for _, item := range v.ListValue.Values {
			writeValue(b, item)
			b.WriteString(",")
		}
		b.WriteString("]")
	case *structpb.Value_StringValue: // protobuf texts contain random spaces
		b.WriteString(strconv.Quote(strings.Join(strings.Fields(v.StringValue), " ")))
	default:
		fmt.Fprint(b, v)
	}
}

// same reports whether answers differ by no more than the time between two requests.
func same(a, b answer) bool {
	const patience = 60 // seconds: the machine may be busy
	return a.text == b.text && slices.EqualFunc(a.resets, b.resets, func(a, b int64) bool { return a-b <= patience && b-a <= patience })
}
