package scale

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

// Each curve has all its points.
func TestMeasure(t *testing.T) {
	s, err := Measure(t.Context(), Options{Limits: 4, Keys: 10_000, Rules: 100, Nodes: 2, Cell: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i, points := range []int{3, 2, 2, 2} {
		if got := len(s.Tables[i].Rows); got != points {
			t.Errorf("%s: %d points, want %d", s.Tables[i].Title, got, points)
		}
		for _, row := range s.Tables[i].Rows {
			for _, v := range row.Values {
				if !(v >= 0) { // Redis may have done less than its clock can measure
					t.Errorf("%s, %s: %v", s.Tables[i].Title, row.Name, row.Values)
				}
			}
		}
	}
}
