package rules

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

func addSeeds(f *testing.F) {
	for _, file := range exampleFiles(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, file := range []string{"testdata/bad.txt", "testdata/warnings.txt"} {
		for _, c := range readBad(f, file) {
			f.Add([]byte(c.text))
		}
	}
}

// FuzzParse checks that no text makes the parser panic, that every problem has a place within the text, and that
// a document is written so that it is read as the same.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := Parse("fuzz", text)
		if err == nil {
			rewritten(t, doc)
			return
		}
		checkPlaces(t, text, err)
	})
}

// FuzzCompile checks that no document makes the compiler panic, and that every compiled document can be matched
// against.
func FuzzCompile(f *testing.F) {
	addSeeds(f)
	call := &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{
		{Name: "ip", Value: "10.0.0.1"}, {Name: "method", Value: "GET"}, {Name: "path", Value: "/search/a"}, {Name: "user", Value: "alice"},
	}}
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, _ := Parse("fuzz", text)
		snapshot, warnings, err := Compile(doc, Options{Now: testNow})
		if len(warnings) > 0 {
			checkPlaces(t, text, warnings)
		}
		if err != nil {
			checkPlaces(t, text, err)
			return
		}
		snapshot.Match(call, penstock.InstantOf(testNow), new(Match))
		for _, r := range snapshot.Rules {
			if len(r.Limits) == 0 || len(r.Limits) != len(r.Policies) {
				t.Errorf("rule %s has %d limits called %v", r.Name, len(r.Limits), r.Policies)
			}
		}
		// Written and parsed again, it still has no errors.
		again, err := Parse("again", doc.YAML())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Compile(again, Options{Now: testNow}); err != nil {
			t.Errorf("%s\n%v", doc.YAML(), err)
		}
	})
}

func checkPlaces(t *testing.T, text []byte, err error) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 || !errors.Is(err, penstock.ErrInvalid) {
		t.Fatalf("%T %v", err, err)
	}
	lines := strings.Count(string(text), "\n") + 1
	for _, p := range problems {
		if p.Line < 1 && !strings.HasSuffix(p.Message, "more are not shown") || p.Line > lines || p.Message == "" {
			t.Errorf("%d lines, %#v", lines, p)
		}
	}
}
