package race

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample is a campaign of three ways, two of which have the same answers.
func sample() *Report {
	r := &Report{Server: "Redis 7", Limit: 10, WindowMS: 60_000, Nodes: 4, Trials: 3, Networks: []Network{{1000, 1100}}}
	for _, callers := range []int{5, 50} {
		for i, way := range []string{"loose", "exact", "exact <too>"} {
			t := &tally{limit: 10, callers: callers, logged: []int{1, 1, 1}}
			admitted := min(callers, 10)
			if way == "loose" {
				admitted = callers
			}
			t.admitted = []int{admitted, admitted, admitted}
			t.took = []time.Duration{time.Duration(i+1) * time.Millisecond, time.Duration(callers) * time.Millisecond}
			t.trips, t.retries = 4, 2
			r.Cells = append(r.Cells, t.cell(way, time.Millisecond, 12))
		}
	}
	return r
}

func TestCellArithmetic(t *testing.T) {
	count := &tally{limit: 10, callers: 50, admitted: []int{12, 10, 7}, logged: []int{50, 50, 50},
		took: []time.Duration{4000, 3000, 2000, 1000}, trips: 8, retries: 2, gaveUp: 1}
	got := count.cell("way", time.Millisecond, 20)
	want := Cell{
		Way: "way", AddedUS: 1000, Callers: 50,
		Admitted: Spread{7, 10, 12}, OverAdmitted: Spread{0, 0, 2}, FalselyDenied: Spread{0, 0, 3}, Logged: Spread{50, 50, 50},
		TripsPerCall: 2, RetriesPerCall: 0.5, CommandsPerCall: 5, GaveUp: 1, P50US: 2, P99US: 4,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// With fewer clients than the limit, there are no more false denials than clients.
func TestFalselyDeniedIsBoundedByCallers(t *testing.T) {
	count := &tally{limit: 10, callers: 4, admitted: []int{1}, logged: []int{0}, took: []time.Duration{1}}
	if got := count.cell("way", 0, 0).FalselyDenied.Max; got != 3 {
		t.Errorf("1 of 4 admitted under a limit of 10: %d falsely denied, want 3", got)
	}
}

func TestQuantileIsNearestRank(t *testing.T) {
	sorted := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		q    float64
		want int
	}{{0, 1}, {0.1, 1}, {0.5, 5}, {0.51, 6}, {0.99, 10}, {1, 10}} {
		if got := quantile(sorted, c.q); got != c.want {
			t.Errorf("quantile %v of 1..10 is %d, want %d", c.q, got, c.want)
		}
	}
}

func TestTableShowsEveryWayOfEveryLoad(t *testing.T) {
	var out bytes.Buffer
	if err := sample().WriteMarkdown(&out, []int{5, 50}, []time.Duration{time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 callers at once, 1 ms", "50 callers at once, 1 ms", "10 per 1m0s", "1 ms → 1.10 ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "loose"); n != 2 {
		t.Errorf("%d rows of one way under two loads:\n%s", n, out.String())
	}
}

func TestWaysThatAnswerAlikeShareALine(t *testing.T) {
	charts := sample().charts([]int{50, 5})
	if len(charts) != 2 {
		t.Fatalf("%d charts", len(charts))
	}
	lines := charts[0].lines
	if len(lines) != 2 || lines[0].label() != "loose" || lines[1].label() != "exact · exact <too>" {
		t.Errorf("lines %+v", lines)
	}
	if got := lines[0].values; got[0] != 5 || got[1] != 50 {
		t.Errorf("loose admits %v at 5 and 50 callers", got)
	}
}

func TestOneLoadIsNoChart(t *testing.T) {
	if charts := sample().charts([]int{50}); len(charts) != 0 {
		t.Errorf("%d charts", len(charts))
	}
}

func TestSVGIsWellFormedAndInsideItsFrame(t *testing.T) {
	dir := t.TempDir()
	if err := sample().WriteSVGs(dir, []int{5, 50}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"race-admitted.svg", "race-p99.svg"} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		var drawn struct {
			Circles []struct {
				X float64 `xml:"cx,attr"`
				Y float64 `xml:"cy,attr"`
			} `xml:"circle"`
			Texts []string `xml:"text"`
		}
		if err := xml.Unmarshal(content, &drawn); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(drawn.Circles) == 0 {
			t.Errorf("%s has no points", file)
		}
		for _, c := range drawn.Circles {
			if c.X < plotLeft || c.X > plotRight || c.Y < plotTop || c.Y > plotBottom {
				t.Errorf("%s: point %+v lies outside the plot", file, c)
			}
		}
		if !strings.Contains(strings.Join(drawn.Texts, "\n"), "exact <too>") {
			t.Errorf("%s does not name a way", file)
		}
	}
}
