package memory

import (
	"os"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/inprocess"
)

func TestMain(m *testing.M) {
	inprocess.ServeIfChild()
	os.Exit(m.Run())
}

func TestMeasureFillsEveryCell(t *testing.T) {
	s, err := Measure(Options{Keys: 500, Cell: time.Millisecond, Repeat: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		if want := len(inprocess.Contestants()); len(table.Rows) != want {
			t.Errorf("%s: %d rows, want one for each of %d contestants", table.Title, len(table.Rows), want)
		}
		for _, row := range table.Rows {
			for i, v := range row.Values {
				if !(v > 0) {
					t.Errorf("%s: %s, %s: %v, want more than 0", table.Title, row.Name, table.Columns[i].Name, v)
				}
			}
		}
	}
	// One for each column, one more for batches on each number of cores, and one in nanoseconds.
	if want := len(cells()) + 3; len(s.Goals) != want {
		t.Errorf("%d goals, want %d", len(s.Goals), want)
	}
	for _, g := range s.Goals {
		if !(g.Measured > 0) {
			t.Errorf("goal %q: measured %v", g.Name, g.Measured)
		}
	}
}
