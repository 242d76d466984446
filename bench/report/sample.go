package report

import "slices"

// Samples are the repeats of figures, by row and column.
type Samples map[[2]string][]float64

// Add adds one repeat of a figure.
func (s Samples) Add(row, column string, v float64) {
	at := [2]string{row, column}
	s[at] = append(s[at], v)
}

// Median returns the median of a figure, or Absent if it was not measured.
func (s Samples) Median(row, column string) float64 { return Median(s[[2]string{row, column}]) }

// Row returns the medians of a row. The name of a column follows the prefix.
func (s Samples) Row(name string, role Role, prefix string, columns []Column) Row {
	r := Row{Name: name, Role: role}
	for _, c := range columns {
		r.Values = append(r.Values, s.Median(name, prefix+c.Name))
	}
	return r
}

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
