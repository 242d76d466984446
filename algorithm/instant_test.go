package algorithm

import (
	"testing"
	"time"
)

func TestInstant(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 999, time.UTC)
	if got := InstantOf(at); got != epoch {
		t.Errorf("%v is %d, want it rounded down to %d", at, got, epoch)
	}
	if got := epoch.Time(); !got.Equal(at.Truncate(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("%d is %v", epoch, got)
	}
	if got := epoch.Add(1999 * time.Nanosecond); got != epoch+1 {
		t.Errorf("1999 ns later is %+d µs", got-epoch)
	}
	if got := epoch.Sub(epoch - 7); got != 7*time.Microsecond {
		t.Errorf("7 µs are %v", got)
	}
	if year := MaxInstant.Time().Year(); year != 2112 {
		t.Errorf("the last instant is in %d", year)
	}
	if d := MaxInstant.Sub(0); d <= 0 || Instant(0).Add(d) != MaxInstant {
		t.Errorf("from the epoch to the last instant it is %v", d)
	}
}

func TestAhead(t *testing.T) {
	for _, test := range []struct {
		at            Instant
		frozen, wrong bool
	}{
		{99, false, false},
		{100, false, false},
		{101, true, false},
		{110, true, false},
		{111, false, true},
		{MaxInstant, false, true},
	} {
		if frozen, wrong := ahead(test.at, 100, 10); frozen != test.frozen || wrong != test.wrong {
			t.Errorf("ahead(%d, 100, 10) = %v, %v; want %v, %v", test.at, frozen, wrong, test.frozen, test.wrong)
		}
	}
}
