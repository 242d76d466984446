package watched

import (
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	s, err := Measure(t.Context(), Options{Cell: 5 * time.Millisecond, Callers: 1000, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range s.Tables[0].Rows {
		for i, v := range row.Values {
			if v <= 0 {
				t.Errorf("%s, %s: %v", row.Name, cells[i].name, v)
			}
		}
	}
}
