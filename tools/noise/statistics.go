package main

import (
	"math"
	"slices"
)

// An interval is the median of ratios with its confidence interval.
type interval struct{ low, median, high float64 }

// minPairs is the least number of pairs that has a 95 % interval: the range of five contains the median with a
// probability of only 93.75 %.
const minPairs = 6

// medianInterval returns the median of at least minPairs values, and its exact 95 % interval: two of the values between
// which the median of their distribution lies with a probability of 95 % or more. Each value is above the median with a
// probability of one half, whatever the distribution, so the number of those above it is binomial (sign test).
func medianInterval(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	k := 0 // how many values are left out on either side
	for outside := tail(n, 0); ; k++ {
		if outside += tail(n, k+1); 2*outside > 0.05 {
			break
		}
	}
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + median) / 2
	}
	return interval{sorted[k], median, sorted[n-1-k]}
}

// tail returns the probability that k of n values are above the median.
func tail(n, k int) float64 {
	logOf := func(x int) float64 { l, _ := math.Lgamma(float64(x + 1)); return l }
	return math.Exp(logOf(n) - logOf(k) - logOf(n-k) - float64(n)*math.Ln2)
}

// A verdict is what an interval says.
type verdict string

const (
	slower  verdict = "slower"
	faster  verdict = "faster"
	within  verdict = "within noise"
	unclear verdict = "unclear" // the interval is too wide to say
)

// judge compares an interval with what counts as noise, for instance 1.02.
func judge(i interval, noise float64) verdict {
	switch {
	case i.low > noise:
		return slower
	case i.high < 1/noise:
		return faster
	case i.high <= noise:
		return within
	}
	return unclear
}
