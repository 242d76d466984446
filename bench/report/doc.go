// Package report is the result of the benchmarks: tables of figures with their ratios to a reference row, goals,
// and how both are printed.
//
// It is separate from the benchmarks so that all of them state ratios in the same way: above 1 is better than the
// reference, whether a higher or a lower figure is better.
package report
