package report

import "slices"

// Median returns the middle of the values, the mean of the middle two, or Absent if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return Absent()
	}
	sorted := slices.Sorted(slices.Values(values))
	i := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[i]
	}
	return (sorted[i-1] + sorted[i]) / 2
}
