// Package report is the result of the benchmarks: tables of figures with their ratios to a reference row, goals,
// and how both are printed and saved.
//
// It is separate from the benchmarks so that all of them state ratios in the same way: above 1 is better than the
// reference, whether a higher or a lower figure is better.
package report

import (
	"encoding/json"
	"fmt"
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
	Tables []*Table `json:"tables"`
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

// In returns columns with a unit.
func (d Direction) In(unit string, names ...string) (all []Column) {
	for _, name := range names {
		all = append(all, Column{Name: name, Unit: unit, Better: d})
	}
	return all
}

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

// A Row is one contestant.
type Row struct {
	Name    string  `json:"name"`
	Role    Role    `json:"role"`
	Values  []Value `json:"values"`
	Ratios  []Value `json:"ratios"` // filled when a report is written
	repeats [][]float64
}

// NewTable returns a table without rows.
func NewTable(title string, columns ...[]Column) *Table {
	return &Table{Title: title, Columns: slices.Concat(columns...)}
}

// Add adds one repeat of a row's figures, from a column on. The value of a figure is the median of its repeats. Rows
// are in the order in which they are first added.
func (t *Table) Add(row string, role Role, column int, figures ...float64) {
	at := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == row })
	if at < 0 {
		at = len(t.Rows)
		n := len(t.Columns)
		t.Rows = append(t.Rows, Row{Name: row, Role: role, Values: slices.Repeat([]Value{Value(Absent())}, n), repeats: make([][]float64, n)})
	}
	r := &t.Rows[at]
	for i, v := range figures {
		r.repeats[column+i] = append(r.repeats[column+i], v)
		r.Values[column+i] = Value(Median(r.repeats[column+i]))
	}
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

// Times returns how many times better a row is than another.
func (t *Table) Times(row, other string, column int) float64 {
	mine, theirs := t.Value(row, column), t.Value(other, column)
	if t.Columns[column].Better == Less {
		return theirs / mine
	}
	return mine / theirs
}

// Ratio returns how many times better a row is than the column's reference.
func (t *Table) Ratio(row string, column int) float64 {
	return t.Times(row, t.Columns[column].Against, column)
}

// BestPeer returns the peer with the best figure of a column, or "" if no peer has one.
func (t *Table) BestPeer(column int) (best string) {
	for _, r := range t.Rows {
		if r.Role == Peer && !math.IsNaN(float64(r.Values[column])) && (best == "" || t.Times(r.Name, best, column) > 1) {
			best = r.Name
		}
	}
	return best
}

// Against makes a row the reference of every column.
func (t *Table) Against(row string) *Table {
	for i := range t.Columns {
		t.Columns[i].Against = row
	}
	return t
}

// AgainstBestPeer makes the best peer of every column its reference.
func (t *Table) AgainstBestPeer() {
	for i := range t.Columns {
		t.Columns[i].Against = t.BestPeer(i)
	}
}

// Table returns the first table of a section whose title contains the text, and the index of a column.
func (s *Section) Table(title, column string) (*Table, int, error) {
	i := slices.IndexFunc(s.Tables, func(t *Table) bool { return strings.Contains(t.Title, title) })
	if i < 0 {
		return nil, 0, fmt.Errorf("section %s has no table about %q", s.Name, title)
	}
	t := s.Tables[i]
	i = slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
	if i < 0 {
		return nil, 0, fmt.Errorf("table %q has no column %q", t.Title, column)
	}
	return t, i, nil
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

// A Goal is a target for a figure. It is not met if nothing was measured.
type Goal struct {
	Name     string  `json:"name"`
	Bound    string  `json:"bound"` // the side of the wanted figure on which the goal is met
	Want     float64 `json:"want"`
	Measured Value   `json:"measured"`
	Unit     string  `json:"unit"` // after the figure: "×", "%", " ms"
	Verdict  string  `json:"verdict"`
}

// AtLeast adds a goal for a figure that should be high.
func (s *Section) AtLeast(name string, want, measured float64, unit string) {
	s.add(name, "≥", want, measured, unit, measured >= want)
}

// AtMost adds a goal for a figure that should be low.
func (s *Section) AtMost(name string, want, measured float64, unit string) {
	s.add(name, "≤", want, measured, unit, measured <= want)
}

// Below adds a goal for a figure that should be lower than the wanted one.
func (s *Section) Below(name string, want, measured float64, unit string) {
	s.add(name, "<", want, measured, unit, measured < want)
}

func (s *Section) add(name, bound string, want, measured float64, unit string, met bool) {
	g := Goal{name, bound, want, Value(measured), unit, "not met"}
	switch {
	case math.IsNaN(measured):
		g.Verdict = "not measured"
	case met:
		g.Verdict = "met"
	}
	s.Goals = append(s.Goals, g)
}

// Count returns how many of the goals are met.
func Count(goals []Goal) (met int) {
	for _, g := range goals {
		if g.Verdict == "met" {
			met++
		}
	}
	return met
}
