package remote

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Every contestant really limits: with a limit of three, three of ten pass, on each key.
func TestEveryContestantLimits(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range append(Contestants(), threeLimits) {
		if c.Role == report.Ceiling && c.Name != "INCRBY + EXPIRE, not conditional" {
			continue // these decide nothing
		}
		t.Run(c.Name, func(t *testing.T) {
			l, err := c.Open(t.Context(), server.Addr, Limit{Count: 3, Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			take := l.Caller()
			for _, key := range []string{"one", "two"} {
				passed := 0
				for range 10 {
					ok, err := take(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					if ok {
						passed++
					}
				}
				if passed != 3 {
					t.Errorf("%s: %d of 10 calls passed, want 3", key, passed)
				}
			}
		})
	}
}

// Requests pass on a warm key, whose state exists before and after.
func TestWarmKeysLetCallsPass(t *testing.T) {
	server := redistest.Start(t)
	for _, c := range append(Contestants(), threeLimits) {
		t.Run(c.Name, func(t *testing.T) {
			if _, err := redistest.Command(server.Addr, "FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			l, err := c.Open(t.Context(), server.Addr, Roomy)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.Warm(t.Context(), "key"); err != nil {
				t.Fatal(err)
			}
			if ok, err := l.Caller()(t.Context(), "key"); !ok || err != nil {
				t.Errorf("a call on a warm key answered %t, %v; want allowed", ok, err)
			}
			n, err := redistest.Command(server.Addr, "DBSIZE")
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]string{true: "1", false: "0"}[c.Name != "EVALSHA of an empty script"]; n != want {
				t.Errorf("%s keys in Redis, want %s", n, want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{Headline, RedisRate, FourTrips, OurLog, OurTwo, OurThree, OurCounter} {
		if _, err := Find(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Find("nobody"); err == nil {
		t.Error("found a contestant that does not exist")
	}
}
