// Package report is what the benchmarks hand back: tables of figures with their ratios to a
// reference row, goals that were met or not, and how both are printed.
//
// It is separate from the benchmarks so that all of them state ratios in the same way: above 1 is
// better than the reference, whether the figure is one to raise or to lower.
package report
