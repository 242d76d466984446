package rules

import (
	"math"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
)

// warnUnreached warns about limits that never deny, because another limit of the same rule always denies first. A limit
// whose number comes from data may deny with some numbers.
func (c *compiler) warnUnreached(of *compiledLimits, at []path) {
	limits := of.compiled
	for i := range limits {
		if of.isData(i) {
			continue
		}
		for k := range limits {
			if i != k && beats(&limits[k], &limits[i]) && !(i < k && beats(&limits[i], &limits[k])) {
				c.warn(at[i], complain("this limit is never reached: %v denies before it", &limits[k]))
				break
			}
		}
	}
}

// beats reports whether every request that a allows is also allowed by b. A true result is certain; false may
// mean unknown. It knows windows and continuous buckets that count only allowed requests.
func beats(a, b *penstock.Limit) bool {
	for _, l := range []*penstock.Limit{a, b} {
		if l.CountDenied || l.Overdraft != 0 || l.Period != penstock.NoPeriod || l.Refill != penstock.Continuous {
			return false
		}
	}
	inCounter := b.Algorithm == penstock.SlidingWindowCounter
	switch {
	case !isWindow(b):
		return false
	case alignedWithin(a, b):
		return a.Count <= b.Count
	case isAligned(a) && b.Algorithm == penstock.FixedWindow && b.Window%a.Window == 0:
		return times(a.Count, int64(b.Window/a.Window)) <= b.Count
	case inCounter: // it covers at most two windows
		return mostIn(a, 2*b.Window) <= b.Count
	}
	return mostIn(a, b.Window) <= b.Count
}

// noLooser reports whether every request that limits allow is also allowed by others. A true result is certain;
// false may mean unknown.
func noLooser(limits, others []penstock.Limit) bool {
	return !slices.ContainsFunc(others, func(other penstock.Limit) bool {
		return !slices.ContainsFunc(limits, func(l penstock.Limit) bool {
			return blocks(&l) || beats(&l, &other) || isSmaller(l, other)
		})
	})
}

// blocks reports whether a limit allows nothing.
func blocks(l *penstock.Limit) bool { return l.Count == 0 && isWindow(l) }

// isSmaller reports whether a, of the same kind as b, has numbers that are all at most those of b.
func isSmaller(a, b penstock.Limit) bool {
	smaller := a.Count <= b.Count && capacity(&a) <= capacity(&b) && a.Queue <= b.Queue && a.Overdraft <= b.Overdraft
	for _, l := range []*penstock.Limit{&a, &b} {
		l.Count, l.Burst, l.Queue, l.Overdraft, l.Ordinal, l.Scope = 0, 0, 0, 0, 0, 0
	}
	return smaller && a == b
}

func isWindow(l *penstock.Limit) bool { return countsDenied(l.Algorithm) }

// isAligned reports whether a limit has windows that begin at multiples of their length. At most Count passes
// within each of them: a sliding counter weighs the current window in full.
func isAligned(l *penstock.Limit) bool {
	return l.Algorithm == penstock.FixedWindow || l.Algorithm == penstock.SlidingWindowCounter
}

// alignedWithin reports whether a always counts everything that b counts.
func alignedWithin(a, b *penstock.Limit) bool {
	switch {
	case a.Algorithm == penstock.SlidingWindowLog:
		return b.Algorithm != penstock.SlidingWindowCounter && b.Window <= a.Window
	case a.Algorithm == penstock.FixedWindow:
		return b.Algorithm == penstock.FixedWindow && a.Window%b.Window == 0
	case a.Algorithm == penstock.SlidingWindowCounter:
		return isAligned(b) && a.Window%b.Window == 0
	}
	return false
}

// mostIn returns an upper bound of what a limit allows in any period of the given length.
func mostIn(l *penstock.Limit, length time.Duration) int64 {
	windows := int64((length + l.Window - 1) / l.Window)
	switch l.Algorithm {
	case penstock.SlidingWindowLog:
		return times(l.Count, windows)
	case penstock.FixedWindow, penstock.SlidingWindowCounter:
		return times(l.Count, windows+1)
	case penstock.TokenBucket:
		return capacity(l) + times(l.Count, windows) + 1
	}
	return math.MaxInt64
}

func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/4/a {
		return math.MaxInt64 / 4
	}
	return a * b
}
