package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func table() *Table {
	t := NewTable("Speed", Less.In("ns", "wait"), More.In("/s", "rate"))
	t.Add("us", Ours, 0, 12, 4000)
	t.Add("slow", Peer, 0, 80, 1000)
	t.Add("fast", Peer, 0, 40, 500)
	t.Add("floor", Ceiling, 0, 1, 9000)
	t.Add("shy", Peer, 0)
	t.Add("us", Ours, 0, 8) // the mean of the two is 10
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
	if a, b := Median(values), Median([]float64{4, 1, 2, 9}); a != 5 || b != 3 || values[0] != 9 || !math.IsNaN(Median(nil)) {
		t.Errorf("medians %v and %v of %v, want 5 and 3, and the values unchanged", a, b, values)
	}
}

func TestGoals(t *testing.T) {
	var s Section
	s.AtLeast("", 4, 4, "")
	s.AtLeast("", 4, 3.99, "")
	s.AtMost("", 40, 40, "")
	s.AtMost("", 40, 41, "")
	s.Below("", 5, 5, "")
	s.AtMost("", 40, Absent(), "")
	for i, want := range []string{"met", "not met", "met", "not met", "not met", "not measured"} {
		if s.Goals[i].Verdict != want {
			t.Errorf("%+v, want %q", s.Goals[i], want)
		}
	}
}

func report() Report {
	s := Section{Name: "speed", Title: "Speed", Tables: []*Table{table()}}
	s.AtLeast("twice as fast", 2, 4, "×")
	return Report{Machine: Machine{CPUs: 2}, Repeat: 3, Sections: []Section{s}}
}

func TestText(t *testing.T) {
	var b strings.Builder
	r := report()
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	narrow := strings.Join(strings.Fields(b.String()), " ") // without the padding
	for _, part := range []string{"| **us** | 10.0 (4.00×) | 4000 (4.00×) |", "40.0 (ref)", "| (floor) |", "| shy | – | – |", "| twice as fast | ≥ 2.00× | 4.00× | met |"} {
		if !strings.Contains(narrow, part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
	if strings.Index(narrow, "## Goals") < strings.Index(narrow, "## Speed") {
		t.Error("the goals are not last")
	}
}

// A saved report is read back as it was, absent figures included.
func TestSavedReportIsReadBack(t *testing.T) {
	dir, r := t.TempDir(), report()
	other := Section{Name: "other"}
	other.AtMost("unknown", 2, Absent(), " ms")
	r.Sections = append(r.Sections, other)
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
	for _, bad := range []string{"{}", `{"sections": [{"name": "speed", "tables": [{"columns": [], "rows": [{"values": [1]}]}]}]}`} {
		if err := os.WriteFile(filepath.Join(dir, "speed.json"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, []string{"speed"}); err == nil {
			t.Errorf("%s was read", bad)
		}
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
