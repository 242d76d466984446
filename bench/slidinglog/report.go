package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

type report struct {
	Redis     string   `json:"redis"`
	Seed      uint64   `json:"seed"`
	Decisions int      `json:"decisions_per_repeat"`
	Repeats   int      `json:"repeats"`
	Checked   coverage `json:"checked"`
	Rows      []row    `json:"rows,omitempty"`
}

// row is one structure at one size under one mix. Ratios are to the sorted set
// of the same size and mix; the empty script has no log, hence no bytes.
type row struct {
	Entries       int     `json:"entries"`
	Mix           mix     `json:"mix"`
	Structure     string  `json:"structure"`
	CPU           float64 `json:"cpu_us_median"`
	CPUMin        float64 `json:"cpu_us_min"`
	CPUMax        float64 `json:"cpu_us_max"`
	CPURatio      float64 `json:"cpu_ratio"`
	Bytes         float64 `json:"key_bytes_mean,omitempty"`
	PeakBytes     int64   `json:"key_bytes_peak,omitempty"`
	BytesPerEntry float64 `json:"bytes_per_entry,omitempty"`
	BytesRatio    float64 `json:"bytes_ratio,omitempty"`
}

func rows(cells []*cell) []row {
	out := make([]row, 0, len(cells))
	for _, e := range cells {
		i := slices.IndexFunc(cells, func(b *cell) bool {
			return b.c.name == baseline && b.size == e.size && b.mix == e.mix
		})
		b := cells[i]
		out = append(out, row{
			Entries: e.size, Mix: e.mix, Structure: e.c.name,
			CPU: median(e.costs), CPUMin: slices.Min(e.costs), CPUMax: slices.Max(e.costs),
			CPURatio: median(e.costs) / median(b.costs),
			Bytes:    e.mean, PeakBytes: e.peak,
			BytesPerEntry: e.mean / float64(e.size), BytesRatio: e.mean / b.mean,
		})
	}
	return out
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r report) json(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r report) text(w io.Writer) error {
	c := r.Checked
	fmt.Fprintf(w, "Redis %s, seed %d. Every structure agrees with the model on %d calls: %d allowed, %d denied, %d never, %d peeks and %d clock steps back among them.\n",
		r.Redis, r.Seed, c.Calls, c.Allowed, c.Denied, c.Never, c.Peeks, c.Back)
	if len(r.Rows) == 0 {
		return nil
	}
	fmt.Fprintf(w, "Server CPU per decision: median (min-max) of %d interleaved repeats of %d decisions. Bytes: mean over two turnovers, and the peak. Ratios: to the %s.\n\n",
		r.Repeats, r.Decisions, baseline)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "entries\tmix\tstructure\tCPU µs\t(min-max)\tratio\tkey bytes\tpeak\tper entry\tratio\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%d\t%s\t%s\t%.2f\t(%.2f-%.2f)\t%.2f\t", x.Entries, x.Mix, x.Structure, x.CPU, x.CPUMin, x.CPUMax, x.CPURatio)
		if x.PeakBytes == 0 {
			fmt.Fprintln(t, "-\t-\t-\t-\t")
			continue
		}
		fmt.Fprintf(t, "%.0f\t%d\t%.1f\t%.2f\t\n", x.Bytes, x.PeakBytes, x.BytesPerEntry, x.BytesRatio)
	}
	return t.Flush()
}
