package httplimit

import (
	"math"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
)

// maxListed bounds how many limits a response lists, because clients limit the size of headers.
const maxListed = 32

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

// A field is one of the two headers that list every limit that applied. Shadow limits are not shown to
// clients.
type field uint8

const (
	policyField field = iota // RateLimit-Policy: what the limits are
	stateField               // RateLimit: what is left of them
)

func appendField(b []byte, f field, v *penstock.Verdict) []byte {
	listed := 0
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Shadow || listed == maxListed {
			continue
		}
		if listed++; listed > 1 {
			b = append(b, ", "...)
		}
		if f == policyField {
			b = appendPolicy(b, l)
		} else {
			b = appendState(b, l)
		}
	}
	return b
}

// appendPolicy appends "name";q=100;w=60.
func appendPolicy(b []byte, l *penstock.LimitVerdict) []byte {
	b = appendString(b, l.Policy)
	b = appendInteger(append(b, ";q="...), l.Limit)
	if l.Algorithm == penstock.Concurrency {
		return append(b, `;qu="concurrent-requests"`...)
	}
	if w, ok := windowSeconds(l); ok {
		b = appendInteger(append(b, ";w="...), w)
	}
	return b
}

// appendState appends "name";r=50;t=30.
func appendState(b []byte, l *penstock.LimitVerdict) []byte {
	b = appendString(b, l.Policy)
	b = appendInteger(append(b, ";r="...), l.Remaining)
	if t, ok := effectiveWindow(l); ok {
		b = appendInteger(append(b, ";t="...), ceilSeconds(t))
	}
	return b
}

// windowSeconds returns the time in which the limit's quota comes back. For a bucket that is the time to
// refill all of its capacity, so that quota and window together are its sustained rate. It is not ok for a
// bucket whose decider does not report the rate: another window would promise too much.
func windowSeconds(l *penstock.LimitVerdict) (_ int64, ok bool) {
	switch {
	case !isBucket(l) || l.Limit == l.Count:
		return max(1, ceilSeconds(l.Window)), true
	case l.Count <= 0:
		return 0, false
	}
	seconds := float64(l.Limit) * l.Window.Seconds() / float64(l.Count) // the product might overflow an int64
	return max(1, int64(math.Ceil(min(seconds-1e-9, maxInteger)))), true
}

func isBucket(l *penstock.LimitVerdict) bool {
	return l.Algorithm == penstock.TokenBucket || l.Algorithm == penstock.LeakyBucket
}

// effectiveWindow returns how long a client should make do with what remains; not ok if that is unknown. It is
// exact for fixed windows, and for denials. For a bucket that allowed the request it is when the next unit can be
// used, rounded up to the bucket's clock. For a sliding window it is when this request leaves, or when a counter
// forgets the first unit at the latest: a client that respects it is never denied.
func effectiveWindow(l *penstock.LimitVerdict) (_ time.Duration, ok bool) {
	switch {
	case !l.Allowed:
		return l.RetryAfter, l.RetryAfter != penstock.Never
	case l.Algorithm == penstock.Concurrency, l.ResetAfter <= 0:
		return 0, false
	case l.Algorithm == penstock.TokenBucket, l.Algorithm == penstock.LeakyBucket:
		return nextUnit(l), true
	}
	t := min(l.ResetAfter, max(l.Window, 0))
	if l.Algorithm == penstock.SlidingWindowCounter { // if all was used in this part, it fades only in the next
		t = max(t, nextUnit(l))
	}
	return t, true
}

// nextUnit returns when more will be left of a bucket, or at the latest of a sliding counter. Debt is paid first.
func nextUnit(l *penstock.LimitVerdict) time.Duration {
	used, window := max(1, l.Used), max(0, l.Window)
	count := l.Count // that come back in a window
	if l.Algorithm == penstock.SlidingWindowCounter {
		count = used
	}
	if count <= 0 {
		return l.ResetAfter / time.Duration(used) // the rate is not known
	}
	first := min(used, max(1, used-l.Limit+1)) // units that must come back
	if l.Refill == penstock.Interval {
		later := ceilDivide(used, l.Count) - ceilDivide(first, l.Count)
		return max(0, l.ResetAfter-time.Duration(later)*window)
	}
	later := min(float64(used-first)*float64(window)/float64(count), float64(l.ResetAfter))
	return max(0, l.ResetAfter-time.Duration(later).Truncate(algorithm.TickOf(window)))
}

func ceilDivide(a, b int64) int64 { return (a + b - 1) / b }

// appendString appends a structured field's string, which may hold only printable ASCII.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= 0x7f:
			b = append(b, '?')
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}
