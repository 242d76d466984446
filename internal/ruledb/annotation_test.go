package ruledb

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// Annotations are read by period and by rule, deleted by ID, and pruned with the history.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db, noon := open(t, source), time.Date(2026, 1, 31, 12, 0, 0, 123_000, time.UTC)
		all := []Annotation{
			{"A", noon, "", "blocked scraper, ticket 123", "ann"},
			{"B", noon.Add(time.Minute), "search", "raised by “hand”", "bob"},
			{"C", noon.Add(2 * time.Minute), "login", "x", "bob"},
		}
		for i := range all {
			if err := db.Annotate(t.Context(), &all[len(all)-1-i]); err != nil {
				t.Fatal(err)
			}
		}
		read := func(from, to time.Time, rule string) (ids string) {
			t.Helper()
			found, err := db.Annotations(t.Context(), from, to, rule)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range found {
				if ids += n.ID; n != all[n.ID[0]-'A'] {
					t.Errorf("read %+v", n)
				}
			}
			return ids
		}
		hour := noon.Add(time.Hour)
		if got := []string{read(noon, hour, ""), read(noon, hour, "search"), read(noon.Add(time.Minute), noon.Add(2*time.Minute), ""), read(noon, hour, "other")}; fmt.Sprint(got) != "[ABC AB B A]" {
			t.Errorf("read %q", got)
		}
		for _, want := range []bool{true, false} {
			if deleted, err := db.DeleteAnnotation(t.Context(), "C"); deleted != want || err != nil {
				t.Errorf("deleted %v, %v; want %v", deleted, err, want)
			}
		}
		if err := db.ForgetTraffic(t.Context(), noon.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := read(noon.Add(-time.Hour), hour, ""); got != "B" {
			t.Errorf("later than a time: %q", got)
		}
	})
}

func TestAnnotationsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		for what, n := range map[string]Annotation{
			"no text":           {ID: "A", Text: " \n"},
			"too long a text":   {ID: "A", Text: strings.Repeat("x", MaxAnnotationText+1)},
			"no UTF-8":          {ID: "A", Text: "\xff"},
			"a NUL":             {ID: "A", Text: "a\x00b"},
			"too long a rule":   {ID: "A", Text: "x", Rule: strings.Repeat("x", maxAnnotationName+1)},
			"too long a person": {ID: "A", Text: "x", Author: strings.Repeat("x", maxAnnotationName+1)},
		} {
			if err := db.Annotate(t.Context(), &n); !errors.Is(err, penstock.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		exec(t, db, `INSERT INTO traffic_annotations (id, at, rule, body, author)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT CAST(i AS TEXT), 1, '', 'x', 'ann' FROM n`)
		if err := db.Annotate(t.Context(), &Annotation{ID: "A", Text: "x"}); !errors.Is(err, ErrManyAnnotations) {
			t.Errorf("one too many: %v", err)
		}
	})
}
