package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// A comparison is a row of the table in the README: one figure of a section beside the same figure of its peers.
type comparison struct {
	what, section, table, column, ours string
	peers                              []string // nil: the best peer of the column
}

var (
	nginxAndOthers = []string{"nginx limit_req", "HAProxy stick table"}
	theirService   = []string{"envoyproxy/ratelimit, local cache", "envoyproxy/ratelimit"}
	redisRate      = []string{"redis_rate v10"}
	exactDecision  = []string{"exact"}
)

const (
	bucket  = "penstock token_bucket"
	batched = bucket + ", 32 at a time"
)

var comparisons = []comparison{
	{"gateway, allowed: CPU per request", "doors", "every request allowed", "CPU per request", "Penstock gateway", append(nginxAndOthers, "bare httputil.ReverseProxy")},
	{"gateway, denied: CPU per request", "doors", "every request denied", "CPU per request", "Penstock gateway", append(nginxAndOthers, "bare net/http handler")},
	{"decision API: CPU per check", "doors", "Decision API", "CPU per request", "Penstock /v1/check", []string{"bare net/http JSON handler"}},
	{"Envoy rate limit service, allowed: decisions per second", "envoy", "Every call allowed", "saturation", "Penstock", theirService},
	{"the same: server CPU per decision", "envoy", "Every call allowed", "server CPU", "Penstock", append(theirService, "bare grpc-go server")},
	{"Envoy rate limit service, denied: decisions per second", "envoy", "Every call denied", "saturation", "Penstock", theirService},
	{"the same: server CPU per decision", "envoy", "Every call denied", "server CPU", "Penstock", append(theirService, "bare grpc-go server")},
	{"one hot key, 512 goroutines, `leased`: decisions per second", "hot", "Decisions a second on one node", "decisions, 512 callers", "leased", exactDecision},
	{"the same, denied by the deny cache", "hot", "Decisions a second on one node", "decisions, 512 callers", "cached deny", exactDecision},
	{"Redis, 512 goroutines, 100,000 keys: decisions per second", "redis", "Decisions a second", "uniform, 512", bucket, redisRate},
	{"the same: Redis CPU per decision", "redis", "Processor time of Redis", "uniform, 512", bucket, redisRate},
	{"Redis, 512 goroutines, one key: decisions per second", "redis", "Decisions a second", "hot, 512", bucket, redisRate},
	{"Redis, one goroutine, 100,000 keys: decisions per second", "redis", "Decisions a second", "uniform, 1", bucket, redisRate},
	{"Redis, one goroutine, one key: decisions per second", "redis", "Decisions a second", "hot, 1", bucket, redisRate},
	{"exact log, +1 ms of network: p50", "latency", "Median latency", "+1ms", "penstock sliding_window_log 100", []string{"four round trips"}},
	{"finding five of 100,000 rules, clients spread over all", "rules", "spread over all", "5", "100000 rules", []string{"10 rules"}},
	{"memory, one key, one core", "memory", "Nanoseconds per decision", "hot, 1 core", bucket, nil},
	{"memory, one key, two cores", "memory", "Nanoseconds per decision", "hot, 2 core", bucket, nil},
	{"memory, one key, denied, one core", "memory", "Nanoseconds per decision", "hot denied, 1 core", bucket, nil},
	{"memory, one key, two limits, one core", "memory", "Nanoseconds per decision", "hot, 1 core", "penstock two limits per call", []string{"sethvargo/go-limiter, two limits, one after the other"}},
	{"memory, a million keys (Zipf), one core", "memory", "Nanoseconds per decision", "zipf, 1 core", bucket, nil},
	{"memory, a million keys (uniform), one core", "memory", "Nanoseconds per decision", "uniform, 1 core", bucket, nil},
	{"memory, a million keys (uniform), two cores", "memory", "Nanoseconds per decision", "uniform, 2 core", bucket, nil},
	{"the same, 32 at a time, one core", "memory", "Nanoseconds per decision", "uniform, 1 core", batched, nil},
	{"bytes per key, ten million keys, resident", "keys", "Bytes per key", "resident", bucket, nil},
	{"full garbage collection, ten million keys", "keys", "Bytes per key", "full GC", bucket, nil},
	{"", "huge", "Filling", "process", bucket, nil},
	{"", "huge", "Filling", "inserts, all cores", bucket, nil},
	{"", "huge", "Filling", "decision, 1 core", bucket, nil},
	{"", "huge", "Filling", "longest GC pause", bucket, nil},
}

// generated are the documents with generated parts: the file, the name of its markers, and what is between them.
var generated = []struct {
	file, markers string
	text          func(saved []report.Report) (string, error)
}{
	{"README.md", "bench: comparisons", comparisonsText},
	{"docs/explanation/benchmarks.md", "bench: goals", goalsText},
	{"docs/explanation/benchmarks.md", "bench: scale", scaleText},
}

// generate returns the files that are written from the saved results, by name: documents and pictures.
func generate(root string) (map[string]string, error) {
	saved, err := report.Load(filepath.Join(root, resultsDir), benchmarks())
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, chart := range curves(saved) {
		var svg strings.Builder
		chart.SVG(&svg)
		files[filepath.Join(root, "docs/img", name)] = svg.String()
	}
	for _, g := range generated {
		file := filepath.Join(root, g.file)
		if files[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			files[file] = string(text)
		}
		part, err := g.text(saved)
		if err != nil {
			return nil, err
		}
		if files[file], err = report.Replace(files[file], g.markers, part); err != nil {
			return nil, fmt.Errorf("%s: %w", g.file, err)
		}
	}
	return files, nil
}

// writeDocuments writes the saved results into the documents of the repository.
func writeDocuments(root string) error {
	files, err := generate(root)
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
	}
	return err
}

// of returns the saved report of a section, in a list that is empty if there is none.
func of(saved []report.Report, section string) []report.Report {
	return slices.DeleteFunc(slices.Clone(saved), func(r report.Report) bool { return r.Sections[0].Name != section })
}

// comparisonsText returns the table of the README. Sections that were never saved are left out.
func comparisonsText(saved []report.Report) (string, error) {
	var b strings.Builder
	b.WriteString("| | Penstock | peers | times better |\n|---|--:|---|--:|\n")
	var failed error
	for _, c := range comparisons {
		for _, r := range of(saved, c.section) {
			line, err := c.line(&r.Sections[0])
			failed = errors.Join(failed, err)
			b.WriteString(line)
		}
	}
	goals := goalsOf(saved)
	fmt.Fprintf(&b, "\nRows of one section are medians of one run, side by side; only the ratios carry over to another machine. %d of %d [goals](docs/explanation/benchmarks.md) are met. %s\n",
		report.Count(goals), len(goals), provenance(saved))
	return b.String(), failed
}

func (c *comparison) line(s *report.Section) (string, error) {
	t, column, err := s.Table(c.table, c.column)
	if err != nil {
		return "", err
	}
	peers := c.peers
	if best := t.BestPeer(column); peers == nil && best != "" {
		peers = []string{best}
	}
	unit := strings.Split(t.Columns[column].Unit, "/key")[0]
	figure := func(row string) string {
		return strings.ReplaceAll(report.Figure(t.Value(row, column))+" "+unit, " /s", "/s")
	}
	var beside, ratios []string
	for _, row := range append([]string{c.ours}, peers...) {
		if !slices.ContainsFunc(t.Rows, func(r report.Row) bool { return r.Name == row }) {
			return "", fmt.Errorf("%s: table %q has no row %q", c.section, t.Title, row)
		}
		if row == c.ours {
			continue
		}
		ratio := t.Times(c.ours, row, column)
		text := report.Figure(ratio) + "×"
		if ratio >= 1 {
			text = "**" + text + "**"
		}
		beside, ratios = append(beside, figure(row)+" "+row), append(ratios, text)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", cmp.Or(c.what, s.Title+": "+c.column), figure(c.ours), strings.Join(beside, "; "), strings.Join(ratios, "; ")), nil
}

// provenance says where and when each section was measured, those of one run together.
func provenance(saved []report.Report) string {
	if len(saved) == 0 {
		return "Nothing has been saved yet."
	}
	var runs []string
	sections := map[string]string{}
	for _, r := range saved {
		run := fmt.Sprintf("%s at commit %s, repeated %d×, on %s", r.Date, r.Commit, r.Repeat, r.Machine)
		if sections[run] == "" {
			runs = append(runs, run)
		} else {
			sections[run] += ", "
		}
		sections[run] += "`" + r.Sections[0].Name + "`"
	}
	for i, run := range runs {
		runs[i] = sections[run] + ": " + run
	}
	return "Measured: " + strings.Join(runs, "; ") + "."
}

// curveFiles are the pictures of the tables of the section scale, and the labels of their horizontal axes.
var curveFiles = []struct{ file, axis string }{
	{"scale-limits.svg", "limits per request"},
	{"scale-keys.svg", "keys"},
	{"scale-rules.svg", "rules"},
	{"scale-nodes.svg", "nodes"},
}

// curves returns charts of the tables of the section scale, if it was saved, by file.
func curves(saved []report.Report) map[string]toolreport.Chart {
	files := map[string]toolreport.Chart{}
	for _, r := range of(saved, "scale") {
		for i, t := range r.Sections[0].Tables {
			c := toolreport.Chart{Caption: fmt.Sprintf("%s: %s per decision", t.Title, t.Columns[0].Unit), Axis: curveFiles[i].axis, Lines: make([]toolreport.Line, len(t.Columns))}
			for column, name := range t.Columns {
				c.Lines[column].Name = name.Name + " [" + name.Unit + "]"
			}
			for _, row := range t.Rows {
				c.Marks = append(c.Marks, row.Name)
				for column, v := range row.Values {
					c.Lines[column].Values = append(c.Lines[column].Values, float64(v))
				}
			}
			files[curveFiles[i].file] = c
		}
	}
	return files
}

// scaleText shows the curves, and their figures.
func scaleText(saved []report.Report) (string, error) {
	var b strings.Builder
	saved = of(saved, "scale")
	for _, r := range saved {
		for i, t := range r.Sections[0].Tables {
			fmt.Fprintf(&b, "### %s\n\n![%[1]s: cost of a decision](../img/%s)\n", t.Title, curveFiles[i].file)
			t.Text(&b)
			b.WriteString("\n")
		}
	}
	return b.String() + provenance(saved) + "\n", nil
}

func goalsOf(saved []report.Report) (goals []report.Goal) {
	for _, r := range saved {
		goals = append(goals, r.Sections[0].Goals...)
	}
	return goals
}

// goalsText returns the goals of every saved section.
func goalsText(saved []report.Report) (string, error) {
	var b strings.Builder
	report.WriteGoals(&b, goalsOf(saved))
	fmt.Fprintf(&b, "\n%s\n", provenance(saved))
	return b.String(), nil
}
