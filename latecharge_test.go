package penstock

import (
	"testing"
	"time"
)

func TestLateChargeTTL(t *testing.T) {
	second := Limit{Algorithm: FixedWindow, Count: 1, Window: time.Second}.MustCompile()
	month := Limit{Algorithm: FixedWindow, Count: 1, Window: 30 * 24 * time.Hour}.MustCompile()
	for _, c := range []struct {
		meters []*Meter
		want   time.Duration
	}{
		{[]*Meter{second}, time.Second},
		{[]*Meter{second, month}, LateChargeTTL},
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
