package report

import (
	"encoding/json"
	"math"
	"slices"
)

// A Report is one run of the benchmarks.
type Report struct {
	Machine  Machine   `json:"machine"`
	Quick    bool      `json:"quick"`
	Repeat   int       `json:"repeat"`
	Sections []Section `json:"sections"`
}

// A Machine is where the figures were measured; they are not comparable with those of another.
type Machine struct {
	CPUs  int    `json:"cpus"`
	Go    string `json:"go"`
	OS    string `json:"os"`
	Redis string `json:"redis,omitempty"` // version, if a server was part of the run
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

// MarshalJSON writes each figure with its ratio, and null for absent ones.
func (t Table) MarshalJSON() ([]byte, error) {
	type cell struct {
		Value *float64 `json:"value"`
		Ratio *float64 `json:"ratio,omitempty"`
	}
	type row struct {
		Name  string `json:"name"`
		Role  Role   `json:"role"`
		Cells []cell `json:"cells"`
	}
	rows := []row{}
	for _, r := range t.Rows {
		out := row{Name: r.Name, Role: r.Role}
		for i, v := range r.Values {
			out.Cells = append(out.Cells, cell{present(v), present(t.Ratio(r.Name, i))})
		}
		rows = append(rows, out)
	}
	return json.Marshal(struct {
		Title   string   `json:"title"`
		Columns []Column `json:"columns"`
		Rows    []row    `json:"rows"`
	}{t.Title, t.Columns, rows})
}

func present(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
