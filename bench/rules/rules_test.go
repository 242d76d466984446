package rules

import (
	"testing"
	"time"
)

// Requests that match fewer or more rules than their column says are an error.
func TestMeasure(t *testing.T) {
	s, err := Measure(Options{Rules: 3000, Cell: time.Millisecond, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Tables {
		table := &s.Tables[i]
		if len(table.Rows) != 3 {
			t.Errorf("%s: %d rows, want 3", table.Title, len(table.Rows))
		}
		for _, row := range table.Rows {
			for c, v := range row.Values {
				if !(v > 0) {
					t.Errorf("%s, %s: %v", row.Name, table.Columns[c].Name, v)
				}
			}
		}
	}
	if want := len(crowds)*len(hits) + 1; len(s.Goals) != want {
		t.Errorf("%d goals, want %d", len(s.Goals), want)
	}
	for _, g := range s.Goals {
		if !(g.Measured > 0) {
			t.Errorf("goal %q: measured %v", g.Name, g.Measured)
		}
	}
}
