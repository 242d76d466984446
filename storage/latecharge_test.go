package storage

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

func TestLateChargeTTL(t *testing.T) {
	second := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Second}.MustCompile()
	month := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: 30 * 24 * time.Hour}.MustCompile()
	for _, c := range []struct {
		meters []*algorithm.Meter
		want   time.Duration
	}{
		{[]*algorithm.Meter{second}, time.Second},
		{[]*algorithm.Meter{second, month}, LateChargeTTL},
	} {
		var late LateCharge
		for _, m := range c.meters {
			late.Amounts = append(late.Amounts, LateAmount{Meter: m})
		}
		if got := time.Duration(late.TTL()) * time.Microsecond; got != c.want {
			t.Errorf("remembered for %v, want %v", got, c.want)
		}
	}
}
