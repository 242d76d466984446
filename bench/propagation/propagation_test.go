package propagation

import (
	"testing"
	"time"
)

// Every way gets every change to every node, or it is an error.
func TestMeasure(t *testing.T) {
	s, err := Measure(t.Context(), Options{Changes: 3, Rules: 2, Interval: 20 * time.Millisecond, Repeat: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 1 || len(s.Tables[0].Rows) != 3 || len(s.Goals) != 3 {
		t.Fatalf("%+v", s)
	}
	for _, row := range s.Tables[0].Rows {
		if !(0 <= row.Values[median] && row.Values[median] <= row.Values[p99] && row.Values[p99] <= row.Values[worst]) {
			t.Errorf("%s: %v", row.Name, row.Values)
		}
	}
}
