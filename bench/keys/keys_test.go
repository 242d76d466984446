package keys

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/report"
)

func TestMain(m *testing.M) {
	inprocess.ServeIfChild()
	os.Exit(m.Run())
}

func TestMeasureWeighsEveryContestant(t *testing.T) {
	s, err := Measure(Options{Keys: 20_000, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	table := s.Tables[0]
	for _, row := range table.Rows {
		if heap, gc := row.Values[heap], row.Values[collection]; !(heap > 0) || !(gc > 0) {
			t.Errorf("%s: %v bytes of heap per key, collected in %v ms; want both above 0", row.Name, heap, gc)
		}
		if own := row.Values[own]; (row.Role == report.Ours) != (own > 0) {
			t.Errorf("%s: %v bytes by its own account", row.Name, own)
		}
	}
	if len(s.Goals) != 3 {
		t.Errorf("%d goals, want 3", len(s.Goals))
	}
	for _, g := range s.Goals {
		if !(g.Measured > 0) && g.Name != "keys: bytes per key, resident" { // not every system reports it
			t.Errorf("goal %q: measured %v", g.Name, g.Measured)
		}
	}
}

func TestContestantsThatNeedTooMuchAreLeftOut(t *testing.T) {
	s, err := Measure(Options{Keys: 20_000, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := len(inprocess.Contestants()); len(s.Notes) != want || !strings.HasPrefix(s.Notes[0], "Left out: ") {
		t.Errorf("%d notes (%q), want one about each of %d contestants", len(s.Notes), s.Notes, want)
	}
	for _, g := range s.Goals {
		if g.Verdict() != "not measured" {
			t.Errorf("goal %q is %s", g.Name, g.Verdict())
		}
	}
}

func TestHuge(t *testing.T) {
	s, err := MeasureHuge(Options{Keys: 50_000, Cell: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range s.Tables[0].Rows[0].Values {
		if !(v > 0) && !math.IsNaN(v) { // not every system reports resident memory
			t.Errorf("%s: %v, want more than 0", s.Tables[0].Columns[i].Name, v)
		}
	}
	if _, err := MeasureHuge(Options{Keys: 1 << 57}); err == nil || !strings.Contains(err.Error(), "choose fewer with -keys") {
		t.Errorf("more keys than there is memory for: %v", err)
	}
}
