package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/doors"
	"github.com/penstock-io/penstock/bench/envoy"
	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/report"
)

func TestMain(m *testing.M) {
	inprocess.ServeIfChild()
	doors.ServeIfChild()
	envoy.ServeIfChild()
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.only, ordinary()) || o.sizes != full || o.repeat != fullRepeat || o.output != "text" {
		t.Errorf("without flags: %+v; want everything, in full", o)
	}
	o, err = parse([]string{"-quick", "-only", "keys, memory", "-o", "json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.only, []string{"keys", "memory"}) || o.sizes != small || o.repeat != smallRepeat || o.output != "json" {
		t.Errorf("quick: %+v", o)
	}
	for _, args := range [][]string{{"-only", "speed"}, {"-only", ""}, {"-o", "xml"}, {"-repeat", "-1"}, {"more"}, {"-nonsense"}, {"-quick", "-save"}, {"-keys", "5"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestHelpNamesEveryBenchmark(t *testing.T) {
	var b strings.Builder
	if _, err := parse([]string{"--help"}, &b); err == nil {
		t.Error("help is not the end of parsing")
	}
	for _, name := range append(benchmarks(), "-quick", "-repeat", "Examples") {
		if !strings.Contains(b.String(), name) {
			t.Errorf("the help does not mention %q", name)
		}
	}
}

func TestRunPrintsTextAndJSON(t *testing.T) {
	o := options{only: []string{"memory"}, output: "json", repeat: 1, sizes: workSizes{memoryKeys: 100, memoryCell: time.Millisecond}}
	var b bytes.Buffer
	if err := run(t.Context(), o, &b, nil); err != nil {
		t.Fatal(err)
	}
	var r struct{ Sections []struct{ Name string } }
	if err := json.Unmarshal(b.Bytes(), &r); err != nil || len(r.Sections) != 1 || r.Sections[0].Name != "memory" {
		t.Errorf("sections %+v, %v", r.Sections, err)
	}
	o.only, o.output = []string{"nothing"}, "text"
	b.Reset()
	if err := run(t.Context(), o, &b, nil); err == nil || !strings.Contains(b.String(), "## Goals") {
		t.Errorf("a failed run gave %v and printed %q; want an error, and what there was", err, b.String())
	}
}

// The README and the docs show the saved results. "go run . -readme" writes them.
func TestDocumentsShowTheSavedResults(t *testing.T) {
	saved, err := report.Load("results", benchmarks())
	if err != nil {
		t.Fatal(err)
	}
	for file, svg := range curves(saved) {
		if text, err := os.ReadFile("../" + file); err != nil || !bytes.Equal(text, svg) {
			t.Errorf("%s differs from %s (%v): run make bench-readme", file, resultsDir, err)
		}
	}
	for _, g := range generated {
		text, err := os.ReadFile("../" + g.file)
		if err != nil {
			t.Fatal(err)
		}
		part, err := g.text(saved)
		if err != nil {
			t.Error(err)
		}
		if want, err := report.Replace(string(text), g.markers, part); err != nil || want != string(text) {
			t.Errorf("%s differs from %s (%v): run make bench-readme", g.file, resultsDir, err)
		}
	}
}

var documentedFlags = regexp.MustCompile("BENCH=\"([^\"]*)\"|BENCH=(-\\w+)|cd bench && go run \\. (-[^`\n]*)")

// The commands on pages are accepted.
func TestDocumentedBenchmarks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../Makefile") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documentedFlags.FindAllStringSubmatch(string(text), -1) {
			checked++
			if _, err := parse(strings.Fields(m[1]+m[2]+m[3]), io.Discard); err != nil && !errors.Is(err, flag.ErrHelp) {
				t.Errorf("%s: %q: %v", page, m[0], err)
			}
		}
	}
	if checked < 8 {
		t.Errorf("the pages show only %d commands", checked)
	}
}

// Every row of the README finds its figures in what the benchmarks measure.
func TestComparisonsFindTheirFigures(t *testing.T) {
	o := options{repeat: 1, keys: 10_000, sizes: small}
	o.sizes.memoryKeys, o.sizes.memoryCell, o.sizes.weighedKeys = 100, time.Millisecond, 10_000
	o.sizes.redisKeys, o.sizes.redisCell, o.sizes.logKeys = 100, time.Millisecond, 5
	o.sizes.latencyCell, o.sizes.travels, o.sizes.hotCell, o.sizes.rulesCell = 20*time.Millisecond, 3, 0, time.Millisecond
	o.sizes.doorsCell = time.Millisecond
	names := []string{"memory", "keys", "huge", "redis", "hot"}
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		names = append(names, "rules", "latency", "doors", "envoy")
	}
	for _, name := range names {
		s, err := measure(t.Context(), name, o, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range comparisons {
			if c.section == name {
				if _, err := c.line(&s); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
