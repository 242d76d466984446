package spelling_test

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                  "0s",
		time.Microsecond:                   "1µs",
		1500 * time.Millisecond:            "1.5s",
		10 * time.Second:                   "10s",
		time.Minute:                        "1m",
		90 * time.Second:                   "1m30s",
		10 * time.Minute:                   "10m",
		time.Hour:                          "1h",
		90 * time.Minute:                   "1h30m",
		time.Hour + time.Second:            "1h0m1s",
		10 * time.Hour:                     "10h",
		24 * time.Hour:                     "1d",
		25 * time.Hour:                     "1d1h",
		24*time.Hour + time.Second:         "1d1s",
		8784 * time.Hour:                   "366d",
		-time.Minute:                       "-1m0s",
		10*time.Hour + time.Millisecond:    "10h0m0.001s",
		20*time.Hour + 10*time.Minute:      "20h10m",
		100*24*time.Hour + 100*time.Minute: "100d1h40m",
	} {
		if got := spelling.Duration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
