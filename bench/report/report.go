// Package report is the result of the benchmarks: tables of figures with their ratios to a reference row, goals,
// and how both are printed and saved.
//
// It is separate from the benchmarks so that all of them state ratios in the same way: above 1 is better than the
// reference, whether a higher or a lower figure is better.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Report is one run of the benchmarks.
type Report struct {
	Date     string    `json:"date"`
	Commit   string    `json:"commit"`
	Machine  Machine   `json:"machine"`
	Quick    bool      `json:"quick"`
	Repeat   int       `json:"repeat"`
	Sections []Section `json:"sections"`
}

// A Section is the result of one benchmark.
type Section struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Notes  []string `json:"notes,omitempty"`
	Tables []Table  `json:"tables"`
	Goals  []Goal   `json:"goals"`
}

// A Role is the part of a row in the comparison.
type Role string

const (
	Ours    Role = "ours"
	Peer    Role = "peer"
	Ceiling Role = "ceiling" // does less than a limiter must: shows what no limiter can reach
)

// A Direction says whether higher or lower figures are better.
type Direction string

const (
	Less Direction = "less"
	More Direction = "more"
)

// A Table compares rows column by column.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// A Column is one figure of every row.
type Column struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Better  Direction `json:"better"`
	Against string    `json:"against,omitempty"` // name of the row that ratios refer to; empty for none
}

// Columns returns columns that differ in nothing but their names.
func Columns(c Column, names ...string) (all []Column) {
	for _, c.Name = range names {
		all = append(all, c)
	}
	return all
}

// A Row is one contestant.
type Row struct {
	Name   string  `json:"name"`
	Role   Role    `json:"role"`
	Values []Value `json:"values"`
	Ratios []Value `json:"ratios"` // filled when a report is written
}

// NewRow returns a row with values.
func NewRow(name string, role Role, values ...float64) Row {
	r := Row{Name: name, Role: role}
	for _, v := range values {
		r.Values = append(r.Values, Value(v))
	}
	return r
}

// A Value is a figure, Absent if it was not measured.
type Value float64

// Absent is the value of a figure that was not measured.
func Absent() float64 { return math.NaN() }

// MarshalJSON writes four digits, and null for an absent figure.
func (v Value) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 4, 64), 64) // a number that was just written
	return json.Marshal(rounded)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(text []byte) error {
	if *v = Value(Absent()); string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(v))
}

// Value returns the figure of a row, or Absent if there is no such row.
func (t *Table) Value(row string, column int) float64 {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == row })
	if i < 0 {
		return Absent()
	}
	return float64(t.Rows[i].Values[column])
}

// Ratio returns how many times better a row is than the column's reference.
func (t *Table) Ratio(row string, column int) float64 {
	c := t.Columns[column]
	if c.Against == "" {
		return Absent()
	}
	mine, theirs := t.Value(row, column), t.Value(c.Against, column)
	if c.Better == Less {
		return theirs / mine
	}
	return mine / theirs
}

// BestPeer returns the peer with the best figure of a column, or "" if no peer has one.
func (t *Table) BestPeer(column int) string {
	best, name := Absent(), ""
	for _, r := range t.Rows {
		v := float64(r.Values[column])
		if r.Role != Peer || math.IsNaN(v) {
			continue
		}
		better := v < best
		if t.Columns[column].Better == More {
			better = v > best
		}
		if name == "" || better {
			best, name = v, r.Name
		}
	}
	return name
}

// AgainstBestPeer makes the best peer of every column its reference.
func (t Table) AgainstBestPeer() Table {
	for i := range t.Columns {
		t.Columns[i].Against = t.BestPeer(i)
	}
	return t
}

// Table returns the first table of a section whose title contains the text.
func (s *Section) Table(title string) (*Table, error) {
	i := slices.IndexFunc(s.Tables, func(t Table) bool { return strings.Contains(t.Title, title) })
	if i < 0 {
		return nil, fmt.Errorf("section %s has no table about %q", s.Name, title)
	}
	return &s.Tables[i], nil
}

// Column returns the index of a column.
func (t *Table) Column(name string) (int, error) {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("table %q has no column %q", t.Title, name)
	}
	return i, nil
}

// Samples are the repeats of figures, by row and column.
type Samples map[[2]string][]float64

// Add adds one repeat of a figure.
func (s Samples) Add(row, column string, v float64) {
	at := [2]string{row, column}
	s[at] = append(s[at], v)
}

// Median returns the median of a figure, or Absent if it was not measured.
func (s Samples) Median(row, column string) float64 { return Median(s[[2]string{row, column}]) }

// Table returns the medians. The rows have no values yet. The name of a column follows the prefix.
func (s Samples) Table(title, prefix string, columns []Column, rows []Row) Table {
	t := Table{Title: title, Columns: slices.Clone(columns)}
	for _, r := range rows {
		r.Values = nil
		for _, c := range columns {
			r.Values = append(r.Values, Value(s.Median(r.Name, prefix+c.Name)))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
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

// JSON writes the report for a program to read.
func (r *Report) JSON(w io.Writer) error {
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			for i := range t.Rows {
				row := &t.Rows[i]
				row.Ratios = make([]Value, len(row.Values))
				for column := range row.Ratios {
					row.Ratios[column] = Value(t.Ratio(row.Name, column))
				}
			}
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
