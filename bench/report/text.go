package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Text writes the report as aligned Markdown tables, the goals last.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s, commit %s; medians of %d interleaved repeats.\n", r.Date, r.Commit, r.Repeat)
	fmt.Fprintln(b, "In brackets: how many times better than the reference row (ref). Only ratios within one run mean anything.")
	if r.Quick {
		fmt.Fprintln(b, "Quick run: small sizes and short cells. It shows that everything works, not how fast it is.")
	}
	var goals []Goal
	for _, s := range r.Sections {
		fmt.Fprintf(b, "\n## %s\n", s.Title)
		for _, note := range s.Notes {
			fmt.Fprintf(b, "\n%s\n", note)
		}
		for _, t := range s.Tables {
			fmt.Fprintf(b, "\n%s\n", t.Title)
			t.Text(b)
		}
		goals = append(goals, s.Goals...)
	}
	fmt.Fprint(b, "\n## Goals\n\n")
	WriteGoals(b, goals)
	fmt.Fprintf(b, "\n%d of %d goals met on %s.\n", Count(goals), len(goals), r.Machine)
	return b.Flush()
}

// Text writes the table below an empty line.
func (t *Table) Text(w io.Writer) {
	fmt.Fprintln(w)
	head := []string{""}
	for _, c := range t.Columns {
		head = append(head, fmt.Sprintf("%s [%s]", c.Name, c.Unit))
	}
	lines := [][]string{head}
	for _, r := range t.Rows {
		name := r.Name
		switch r.Role {
		case Ours:
			name = "**" + name + "**"
		case Ceiling:
			name = "(" + name + ")"
		}
		line := []string{name}
		for i, v := range r.Values {
			line = append(line, t.cell(r.Name, i, float64(v)))
		}
		lines = append(lines, line)
	}
	Align(w, lines)
}

func (t *Table) cell(row string, column int, v float64) string {
	ratio := t.Ratio(row, column)
	switch {
	case math.IsNaN(v) || math.IsNaN(ratio):
		return Figure(v)
	case t.Columns[column].Against == row:
		return Figure(v) + " (ref)"
	}
	return fmt.Sprintf("%s (%s×)", Figure(v), Figure(ratio))
}

// WriteGoals writes a table of goals.
func WriteGoals(w io.Writer, goals []Goal) {
	lines := [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range goals {
		lines = append(lines, []string{g.Name, fmt.Sprintf("%s %s%s", g.Bound, Figure(g.Want), g.Unit), Figure(float64(g.Measured)) + g.Unit, g.Verdict})
	}
	Align(w, lines)
}

// Figure formats about three significant digits.
func Figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case a >= 1e4:
		return fmt.Sprintf("%.1f k", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// Align prints the lines as a Markdown table, the first column to the left and the others to the right.
func Align(w io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, line := range lines {
		rule := "" // below the head
		for i, cell := range line {
			dashes := strings.Repeat("-", widths[i]+1)
			if i == 0 {
				fmt.Fprintf(w, "| %-*s |", widths[i], cell)
				rule += "|:" + dashes + "|"
			} else {
				fmt.Fprintf(w, " %*s |", widths[i], cell)
				rule += dashes + ":|"
			}
		}
		fmt.Fprintln(w)
		if n == 0 {
			fmt.Fprintln(w, rule)
		}
	}
}
