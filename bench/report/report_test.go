package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func table() Table {
	t := Table{
		Title: "Speed",
		Columns: []Column{
			{Name: "wait", Unit: "ns", Better: Less},
			{Name: "rate", Unit: "/s", Better: More},
		},
		Rows: []Row{
			{"us", Ours, []float64{10, 4000}},
			{"slow", Peer, []float64{80, 1000}},
			{"fast", Peer, []float64{40, 500}},
			{"floor", Ceiling, []float64{1, 9000}},
			{"shy", Peer, []float64{Absent(), Absent()}},
		},
	}
	t.AgainstBestPeer()
	return t
}

func TestRatiosSayHowMuchBetter(t *testing.T) {
	speed := table()
	if a, b := speed.Columns[0].Against, speed.Columns[1].Against; a != "fast" || b != "slow" {
		t.Fatalf("references %q and %q, want fast and slow: the best peers, not the ceiling", a, b)
	}
	if a, b := speed.Ratio("us", 0), speed.Ratio("us", 1); a != 4 || b != 4 {
		t.Errorf("ratios %v and %v, want 4 for a quarter of the wait and for four times the rate", a, b)
	}
	if !math.IsNaN(speed.Ratio("shy", 0)) || !math.IsNaN(speed.Ratio("nobody", 0)) {
		t.Error("what was not measured has a ratio")
	}
}

func TestMedian(t *testing.T) {
	values := []float64{9, 1, 5}
	if m := Median(values); m != 5 {
		t.Errorf("median %v, want 5", m)
	}
	if values[0] != 9 {
		t.Error("the caller's values were sorted")
	}
	if m := Median([]float64{4, 1, 2, 9}); m != 3 {
		t.Errorf("median of an even number %v, want 3", m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal Goal
		want string
	}{
		{Goal{Bound: AtLeast, Want: 4, Measured: 4}, "met"},
		{Goal{Bound: AtLeast, Want: 4, Measured: 3.99}, "not met"},
		{Goal{Bound: AtMost, Want: 40, Measured: 40}, "met"},
		{Goal{Bound: AtMost, Want: 40, Measured: 41}, "not met"},
		{Goal{Bound: Below, Want: 5, Measured: 5}, "not met"},
		{Goal{Bound: AtMost, Want: 40, Measured: Absent()}, "not measured"},
	} {
		if got := c.goal.Verdict(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.goal, got, c.want)
		}
	}
}

func report() Report {
	return Report{Machine: Machine{CPUs: 2}, Repeat: 3, Sections: []Section{{
		Name: "speed", Title: "Speed", Tables: []Table{table()},
		Goals: []Goal{{"twice as fast", AtLeast, 2, 4, "×"}},
	}}}
}

func TestText(t *testing.T) {
	var b strings.Builder
	r := report()
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	narrow := strings.Join(strings.Fields(text), " ") // without the padding
	for _, part := range []string{"| **us** | 10.0 (4.00×) | 4000 (4.00×) |", "40.0 (ref)", "| (floor) |", "| shy | – | – |", "| twice as fast | ≥ 2.00× | 4.00× | met |"} {
		if !strings.Contains(narrow, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|\n") {
			t.Errorf("the table's line %q does not end with a bar", line)
		}
	}
	if i := strings.Index(text, "## Goals"); i < strings.Index(text, "## Speed") {
		t.Error("the goals are not last")
	}
}

// A saved report is read back as it was, absent figures included.
func TestSavedReportIsReadBack(t *testing.T) {
	dir, r := t.TempDir(), report()
	r.Sections = append(r.Sections, Section{Name: "other", Goals: []Goal{{"unknown", AtMost, 2, Absent(), " ms"}}})
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	saved, err := Load(dir, []string{"never", "speed", "other"})
	if err != nil || len(saved) != 2 {
		t.Fatalf("%d saved reports, %v; want 2", len(saved), err)
	}
	for i, got := range saved {
		want := r
		want.Sections = r.Sections[i : i+1]
		var a, b strings.Builder
		if err := errors.Join(got.Text(&a), want.Text(&b)); err != nil || a.String() != b.String() {
			t.Errorf("%v; read\n%s\nwant\n%s", err, a.String(), b.String())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "speed.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, []string{"speed"}); err == nil {
		t.Error("a file without a section was read")
	}
}

func TestReplace(t *testing.T) {
	got, err := Replace("a\n<!-- x -->\nold\n<!-- /x -->\nb\n", "x", "new\n")
	if want := "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := Replace("a\n<!-- x -->\n", "x", "new\n"); err == nil {
		t.Error("a missing end was accepted")
	}
}
