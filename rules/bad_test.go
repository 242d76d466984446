package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// testNow is when documents of tests are compiled.
var testNow = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// A badDocument is a case of testdata/bad.txt: a text, and what is wrong with it.
type badDocument struct {
	title, text string
	want        []string // line:column: message
}

// readBad reads the cases. Each begins with a title. Lines of the text are indented by two. One
// that begins with ! has a caret below what is wrong in the line before it, and the message.
//
//	=== an unknown unit
//	    limits: [100/1mn]
//	!                 ^ unknown unit mn, did you mean min?
func readBad(t testing.TB, file string) (cases []badDocument) {
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(strings.TrimSuffix(string(all), "\n"), "\n") {
		if title, ok := strings.CutPrefix(line, "=== "); ok {
			cases = append(cases, badDocument{title: title})
			lines = nil
			continue
		}
		c := &cases[len(cases)-1]
		mark, ok := strings.CutPrefix(line, "! ")
		if !ok {
			lines = append(lines, strings.TrimPrefix(line, "  "))
			c.text = strings.Join(lines, "\n")
			continue
		}
		before, message, ok := strings.Cut(mark, "^ ")
		if !ok {
			t.Fatalf("%s: %q has no caret", c.title, line)
		}
		c.want = append(c.want, fmt.Sprintf("%d:%d: %s", len(lines), utf8.RuneCountInString(before)+1, message))
	}
	return cases
}

// problemsOf returns all errors of a text, in the form of the cases.
func problemsOf(text string) []string {
	doc, _ := Parse("", []byte(text))
	_, _, err := Compile(doc, Options{Now: testNow})
	if err == nil {
		return nil
	}
	return firstLines(err.(Problems))
}

// Every error is shown where it was made, and nothing else is.
func TestBadDocuments(t *testing.T) {
	cases := readBad(t, "testdata/bad.txt")
	if len(cases) < 150 {
		t.Errorf("only %d bad documents", len(cases))
	}
	for _, c := range cases {
		t.Run(c.title, func(t *testing.T) {
			if diff := cmp.Diff(c.want, problemsOf(c.text)); diff != "" {
				t.Errorf("%s\n(-want +got)\n%s", c.text, diff)
			}
		})
	}
}

// The same for warnings.
func TestWarnings(t *testing.T) {
	for _, c := range readBad(t, "testdata/warnings.txt") {
		t.Run(c.title, func(t *testing.T) {
			doc, err := Parse("", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			_, warnings, err := Compile(doc, Options{Now: testNow})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, firstLines(warnings)); diff != "" {
				t.Errorf("%s\n(-want +got)\n%s", c.text, diff)
			}
		})
	}
}

func firstLines(problems Problems) (lines []string) {
	for _, p := range problems {
		line, _, _ := strings.Cut(p.String(), "\n")
		lines = append(lines, line)
	}
	return lines
}
