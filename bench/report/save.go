package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

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

// Save writes each section of the report to its own file, so that a section can be measured again alone.
func (r *Report) Save(dir string) error {
	for _, s := range r.Sections {
		alone := *r
		alone.Sections = []Section{s}
		var b bytes.Buffer
		if err := alone.JSON(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, s.Name+".json"), oneLineArrays(b.Bytes()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var (
	numberInArray = regexp.MustCompile(`([\[,])\s+(null|-?[0-9][^\s,\]]*)`)
	endOfNumbers  = regexp.MustCompile(`(null|[0-9])\s+\]`)
)

// oneLineArrays writes arrays of numbers on one line.
func oneLineArrays(text []byte) []byte {
	text = numberInArray.ReplaceAll(text, []byte("$1 $2"))
	return bytes.ReplaceAll(endOfNumbers.ReplaceAll(text, []byte("$1]")), []byte("[ "), []byte("["))
}

// Load reads the saved reports of a directory, one for each section, in the order of the names given. Sections that
// were never saved are missing.
func Load(dir string, names []string) ([]Report, error) {
	var all []Report
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		var r Report
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil && (len(r.Sections) != 1 || r.Sections[0].Name != name) {
			err = fmt.Errorf("want one section called %q", name)
		}
		if err == nil {
			err = r.Sections[0].complete()
		}
		if err != nil {
			return nil, fmt.Errorf("saved results of %s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// complete returns an error if a row does not have a figure for each column.
func (s *Section) complete() error {
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			if len(r.Values) != len(t.Columns) {
				return fmt.Errorf("table %q: row %q has %d figures for %d columns", t.Title, r.Name, len(r.Values), len(t.Columns))
			}
		}
	}
	return nil
}

// Replace returns the document with the text between the markers <!-- name --> and <!-- /name --> replaced.
func Replace(document, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no text between %q and %q", begin, end)
	}
	return before + begin + text + end + after, nil
}
