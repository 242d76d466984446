package rls

import (
	"math"
	"strconv"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// LimitHeaders are the names of the headers that envoyproxy/ratelimit adds to responses.
type LimitHeaders struct {
	Limit     string
	Remaining string
	Reset     string // seconds
}

// add encodes the headers for the descriptor that is closest to its limit: the last one that denies the request, else
// the first of those with the least remaining. Without a limit there are none.
func (h *LimitHeaders) add(e *encoder, a *Answers) {
	var closest descriptorStatus
	least := uint32(math.MaxUint32)
	for i := range a.Each {
		s := statusOf(&a.Each[i])
		denies := s.code == rlsv3.RateLimitResponse_OVER_LIMIT && !a.Each[i].Quota
		if s.limited && (denies || s.remaining < least) {
			closest, least = s, s.remaining
		}
	}
	if !closest.limited {
		return
	}
	e.addHeader(h.Limit, strconv.FormatUint(uint64(closest.limit), 10))
	e.addHeader(h.Remaining, strconv.FormatUint(uint64(closest.remaining), 10))
	e.addHeader(h.Reset, strconv.FormatInt(max(0, closest.reset), 10))
}
