package main

import (
	"bytes"
	"context"
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

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
)

func TestMain(m *testing.M) {
	lab.ServeIfChild(roles)
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if err != nil || !slices.Equal(o.only, ordinary()) || o.bench.Divisor != 1 || o.bench.Repeat != fullRepeat || o.output != "text" {
		t.Errorf("without flags: %+v, %v; want everything, in full", o, err)
	}
	o, err = parse([]string{"-quick", "-only", "keys, memory", "-o", "json"}, io.Discard)
	if err != nil || !slices.Equal(o.only, []string{"keys", "memory"}) || o.bench.Divisor != quickDivisor || o.bench.Repeat != quickRepeat || o.output != "json" {
		t.Errorf("quick: %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-only", "speed"}, {"-only", ""}, {"-o", "xml"}, {"-repeat", "-1"}, {"more"}, {"-nonsense"}, {"-quick", "-save"}, {"-keys", "5"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	var help strings.Builder
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	for _, name := range append(benchmarks(), "-quick", "-repeat", "Examples") {
		if !strings.Contains(help.String(), name) {
			t.Errorf("the help does not mention %q", name)
		}
	}
}

func TestRunPrintsTextAndJSON(t *testing.T) {
	o := options{only: []string{"memory"}, output: "json", bench: tiny(t)}
	var b bytes.Buffer
	if err := run(o, &b); err != nil {
		t.Fatal(err)
	}
	var r struct{ Sections []struct{ Name string } }
	if err := json.Unmarshal(b.Bytes(), &r); err != nil || len(r.Sections) != 1 || r.Sections[0].Name != "memory" {
		t.Errorf("sections %+v, %v", r.Sections, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.bench.Context, o.output = ctx, "text"
	b.Reset()
	if err := run(o, &b); err == nil || !strings.Contains(b.String(), "## Goals") {
		t.Errorf("a failed run gave %v and printed %q; want an error, and what there was", err, b.String())
	}
}

// The README and the docs show the saved results. "go run . -readme" writes them.
func TestDocumentsShowTheSavedResults(t *testing.T) {
	for file, want := range lab.Must(generate("..")) {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s differs from %s (%v): run make bench-readme", file, resultsDir, err)
		}
	}
}

var documentedFlags = regexp.MustCompile("BENCH=\"([^\"]*)\"|BENCH=(-\\w+)|cd bench && go run \\. (-[^`\n]*)")

// The commands on pages are accepted.
func TestDocumentedBenchmarks(t *testing.T) {
	pages, checked := lab.Must(filepath.Glob("../docs/*/*.md")), 0
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../Makefile") {
		for _, m := range documentedFlags.FindAllStringSubmatch(string(lab.Must(os.ReadFile(page))), -1) {
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

// tiny has sizes at which every section takes about a second.
func tiny(t *testing.T) lab.Bench {
	return lab.Bench{Context: t.Context(), Repeat: 1, Divisor: 250, HugeKeys: 50_000}
}

// absent are the figures that may be missing or 0: because a contestant cannot be measured, because not every system
// reports it, because a few keys fit into the memory that a store begins with, because a few rules weigh less than what
// earlier sections release, or because Redis may have done nothing, or less than its clock can measure.
var absent = regexp.MustCompile(`^(Redis calls|asked of Redis|Redis CPU|fullest window|emptiest window|own account|resident|process|full GC|longest GC pause|exact: Redis|leased: Redis|Redis, CPU of Redis|memory|heap|logged|retries|gave up)$`)

// Every section fills its tables and its goals, and the rows of the README find their figures.
func TestSections(t *testing.T) {
	goals := map[string]int{"memory": 19, "keys": 3, "huge": 1, "redis": 5, "latency": 4, "hot": 9, "rules": 7, "doors": 8, "envoy": 12}
	tables := map[string]int{"memory": 2, "keys": 1, "huge": 1, "scale": 4, "redis": 7, "latency": 2, "hot": 4, "guards": 2, "rules": 3, "doors": 5, "envoy": 4, "atomicity": 10}
	for _, name := range benchmarks() {
		t.Run(name, func(t *testing.T) {
			if (name == "doors" || name == "envoy") && os.Getenv("PENSTOCK_TEST_LONG") == "" {
				t.Skip("builds and starts many servers: with PENSTOCK_TEST_LONG=1")
			}
			s, err := measure(tiny(t), name)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Goals) != goals[name] || len(s.Tables) != tables[name] {
				t.Errorf("%d goals and %d tables, want %d and %d", len(s.Goals), len(s.Tables), goals[name], tables[name])
			}
			for _, table := range s.Tables {
				for _, row := range table.Rows {
					for i, v := range row.Values {
						column := table.Columns[i].Name
						idle := strings.HasPrefix(table.Title, "Processor time of") || strings.Contains(column, "CPU") || strings.HasPrefix(column, "added to")
						bounded := row.Name == limiter.OurLog && strings.HasPrefix(column, "hot")
						if !(v > 0) && !idle && !bounded && !absent.MatchString(column) {
							t.Errorf("%s: %s, %s: %v, want more than 0", table.Title, row.Name, column, v)
						}
					}
				}
			}
			for _, c := range comparisons {
				if c.section == name && name != "rules" { // the README is about more rules
					if _, err := c.line(&s); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}
