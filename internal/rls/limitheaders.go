package rls

import (
	"math"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// LimitHeaders are the names of the headers that envoyproxy/ratelimit adds to responses.
type LimitHeaders struct {
	Limit     string
	Remaining string
	Reset     string // seconds
}

// of returns the headers for the descriptor that is closest to its limit: the last one that denies the request, else
// the first of those with the least remaining. Without a limit there are none.
func (h *LimitHeaders) of(a *Answers, statuses []*rlsv3.RateLimitResponse_DescriptorStatus) []*corev3.HeaderValue {
	var closest *rlsv3.RateLimitResponse_DescriptorStatus
	least := uint32(math.MaxUint32)
	for i, s := range statuses {
		denies := s.Code == rlsv3.RateLimitResponse_OVER_LIMIT && !a.Each[i].Quota
		if s.CurrentLimit != nil && (denies || s.LimitRemaining < least) {
			closest, least = s, s.LimitRemaining
		}
	}
	if closest == nil {
		return nil
	}
	header := func(name string, value uint64) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: name, Value: strconv.FormatUint(value, 10)}
	}
	return []*corev3.HeaderValue{
		header(h.Limit, uint64(closest.CurrentLimit.RequestsPerUnit)),
		header(h.Remaining, uint64(closest.LimitRemaining)),
		header(h.Reset, uint64(max(0, closest.DurationUntilReset.GetSeconds()))),
	}
}
