// Package toolreport writes the results of a tool, as text for a terminal and as a file to share: tables and
// charts in HTML, or charts alone in SVG.
package toolreport

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Page is a title and the parts below it.
type Page struct {
	Title string
	Parts []Part
}

// A Part is a Text, a Table or a Chart.
type Part interface {
	text(w io.Writer)
	html(w io.Writer)
	kind() string // name of the part in JSON
}

// Add adds parts.
func (p *Page) Add(parts ...Part) { p.Parts = append(p.Parts, parts...) }

// Addf adds a line of text.
func (p *Page) Addf(format string, args ...any) { p.Add(Text(fmt.Sprintf(format, args...))) }

// WriteText writes the page for a terminal.
func (p *Page) WriteText(w io.Writer) error {
	out := &sticky{w: w}
	fmt.Fprintln(out, p.Title)
	for i, part := range p.Parts {
		_, text := part.(Text)
		if i > 0 {
			if _, before := p.Parts[i-1].(Text); !before || !text {
				fmt.Fprintln(out)
			}
		}
		part.text(out)
	}
	return out.err
}

// sticky remembers the first error, so that writing can be checked once.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(p []byte) (int, error) {
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
	return len(p), nil
}

// Text is one or more lines.
type Text string

func (t Text) text(w io.Writer) { fmt.Fprintln(w, string(t)) }

// A Code is text to copy, such as a rule.
type Code string

func (c Code) text(w io.Writer) {
	for line := range strings.SplitSeq(strings.TrimRight(string(c), "\n"), "\n") {
		fmt.Fprintln(w, strings.TrimRight("    "+line, " "))
	}
}

// A Table has a caption, column names and rows. Columns of numbers are aligned to the right.
type Table struct {
	Caption string     `json:"caption,omitempty"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Row adds a row.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.Rows = append(t.Rows, row)
}

func (t *Table) text(w io.Writer) {
	if t.Caption != "" {
		fmt.Fprintln(w, t.Caption)
	}
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	right := t.numeric()
	for n, row := range append([][]string{t.Columns}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			if n == 0 {
				cell = strings.ToUpper(cell)
			}
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				line.WriteString("  " + space + cell)
			} else {
				line.WriteString("  " + cell + space)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// numeric returns which columns contain numbers.
func (t *Table) numeric() []bool {
	all := make([]bool, len(t.Columns))
	for i := range all {
		all[i] = len(t.Rows) > 0
		for _, row := range t.Rows {
			first, _ := utf8.DecodeRuneInString(strings.TrimLeft(row[i], "+-~≈"))
			all[i] = all[i] && (row[i] == "" || row[i] == "–" || row[i] == "✗" || unicode.IsDigit(first))
		}
	}
	return all
}
