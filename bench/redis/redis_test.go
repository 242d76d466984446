package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/internal/redistest"
)

func TestMeasureFillsEveryCell(t *testing.T) {
	s, err := Measure(t.Context(), Options{Keys: 200, LogKeys: 5, Cell: 5 * time.Millisecond, Repeat: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 7 {
		t.Fatalf("%d tables, want rate, two latencies, two of CPU and two of memory", len(s.Tables))
	}
	for _, table := range s.Tables {
		if len(table.Rows) == 0 {
			t.Errorf("%s: no rows", table.Title)
		}
		for _, row := range table.Rows {
			for i, v := range row.Values {
				bounded := row.Name == remote.OurLog && strings.HasPrefix(table.Columns[i].Name, "hot")
				// A short cell may cost the server less than its clock can measure.
				if !bounded && !(v > 0) && !(v == 0 && strings.HasPrefix(table.Title, "Processor")) {
					t.Errorf("%s: %s, %s: %v, want more than 0", table.Title, row.Name, table.Columns[i].Name, v)
				}
			}
		}
	}
	if len(s.Goals) != 5 {
		t.Errorf("%d goals, want 5", len(s.Goals))
	}
}

// fake gives configured answers: the test is about the load, not a limiter.
type fake struct {
	allowed bool
	err     error
}

func (f fake) Caller() remote.TakeFunc {
	return func(context.Context, string) (bool, error) {
		time.Sleep(100 * time.Microsecond)
		return f.allowed, f.err
	}
}
func (f fake) Warm(context.Context, string) error { return f.err }
func (f fake) Close()                             {}

func TestLoadRefusesToMeasureTheWrongThing(t *testing.T) {
	load := Load{Callers: 2, Keys: Keys(3)} // for no time, in which every client sends one request
	broken := errors.New("broken")
	if _, err := load.Run(t.Context(), fake{allowed: false}); err == nil {
		t.Error("denied calls were counted as a benchmark of passing ones")
	}
	if _, err := load.Run(t.Context(), fake{err: broken}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the limiter's error", err)
	}
	load.MayGiveUp = true
	if _, err := load.Run(t.Context(), fake{err: broken}); err == nil {
		t.Error("a load of which every call failed was measured")
	}
	served, err := load.Run(t.Context(), fake{allowed: true})
	if err != nil {
		t.Fatal(err)
	}
	if served.Decisions != 2 || served.Latency.TotalCount() != served.Decisions || served.PerSecond() <= 0 {
		t.Errorf("served %d, %d latencies, %v/s", served.Decisions, served.Latency.TotalCount(), served.PerSecond())
	}
	if err := Warm(t.Context(), fake{err: broken}, Keys(3)); !errors.Is(err, broken) {
		t.Errorf("warming gave %v, want the limiter's error", err)
	}
}

func TestInfoNamesWhatIsMissing(t *testing.T) {
	server := redistest.Start(t)
	if v, err := Info(server.Addr, "server", "redis_version"); err != nil || v == "" {
		t.Errorf("redis_version is %q, %v", v, err)
	}
	if _, err := Info(server.Addr, "server", "no_such_field"); err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}
