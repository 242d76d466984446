package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	Title   string
	Columns []Column
	Rows    []Row
}

// A Column is one figure of every row.
type Column struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Better  Direction `json:"better"`
	Against string    `json:"against,omitempty"` // name of the row that ratios refer to; empty for none
}

// A Row is one contestant. Absent values are NaN.
type Row struct {
	Name   string
	Role   Role
	Values []float64
}

// Absent is the value of a figure that was not measured.
func Absent() float64 { return math.NaN() }

// Value returns the figure of a row, or Absent if there is no such row.
func (t *Table) Value(row string, column int) float64 {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == row })
	if i < 0 {
		return Absent()
	}
	return t.Rows[i].Values[column]
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
		v := r.Values[column]
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
func (t *Table) AgainstBestPeer() {
	for i := range t.Columns {
		t.Columns[i].Against = t.BestPeer(i)
	}
}

type jsonTable struct {
	Title   string    `json:"title"`
	Columns []Column  `json:"columns"`
	Rows    []jsonRow `json:"rows"`
}

type jsonRow struct {
	Name   string     `json:"name"`
	Role   Role       `json:"role"`
	Values []*float64 `json:"values"`
	Ratios []*float64 `json:"ratios"`
}

// MarshalJSON writes the figures of each row and their ratios, with four digits, and null for absent ones.
func (t Table) MarshalJSON() ([]byte, error) {
	out := jsonTable{t.Title, t.Columns, []jsonRow{}}
	for _, r := range t.Rows {
		row := jsonRow{Name: r.Name, Role: r.Role}
		for i, v := range r.Values {
			row.Values = append(row.Values, present(v))
			row.Ratios = append(row.Ratios, present(t.Ratio(r.Name, i)))
		}
		out.Rows = append(out.Rows, row)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Table) UnmarshalJSON(text []byte) error {
	var in jsonTable
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*t = Table{Title: in.Title, Columns: in.Columns}
	for _, r := range in.Rows {
		if len(r.Values) != len(in.Columns) {
			return fmt.Errorf("table %q: row %q has %d figures for %d columns", in.Title, r.Name, len(r.Values), len(in.Columns))
		}
		row := Row{Name: r.Name, Role: r.Role}
		for _, v := range r.Values {
			row.Values = append(row.Values, orAbsent(v))
		}
		t.Rows = append(t.Rows, row)
	}
	return nil
}

func present(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return &v
}

func orAbsent(v *float64) float64 {
	if v == nil {
		return Absent()
	}
	return *v
}
