package plan

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// usage returns the MEMORY USAGE of one key, which the page shows beside the planned size.
func usage(t *testing.T, addr string) float64 {
	t.Helper()
	key, err := redistest.Command(addr, "RANDOMKEY")
	if err != nil {
		t.Fatal(err)
	}
	text, err := redistest.Command(addr, "MEMORY", "USAGE", key)
	n, parsed := strconv.ParseFloat(text, 64)
	if err != nil || parsed != nil {
		t.Fatalf("MEMORY USAGE %q: %q, %v", key, text, err)
	}
	return n
}

// The bytes used in plans are those that stores take.
func TestBytesAreAsMeasured(t *testing.T) {
	memory, err := memstore.New(memstore.Options{MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	server := redistest.Start(t)
	redis, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	info := func(section, field string) (float64, error) {
		text, err := redistest.Command(server.Addr, "INFO", section)
		_, text, _ = strings.Cut(text, "\n"+field+":")
		text, _, _ = strings.Cut(text, "\r")
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(text, 64)
	}
	defaults := DefaultCosts()
	one := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1, Window: time.Hour}.MustCompile()
	if err := take(t.Context(), redis, one, "usage", 1); err != nil {
		t.Fatal(err)
	}
	near(t, "MEMORY USAGE", usage(t, server.Addr), 104, 0.25)
	for _, test := range []struct {
		name   string
		target Target
		want   StoreCosts
	}{
		{"memory", Target{Store: memory, Keys: 100_000, Used: func(context.Context) (int64, error) { return memory.Stats().Bytes, nil }}, defaults.Memory},
		{"redis", Target{Store: redis, Keys: 20_000, Used: func(context.Context) (int64, error) {
			n, err := info("memory", "used_memory")
			return int64(n), err
		}, CPU: func(context.Context) (time.Duration, error) {
			user, err := info("cpu", "used_cpu_user")
			if err != nil {
				return 0, err
			}
			system, err := info("cpu", "used_cpu_sys")
			return time.Duration((user + system) * float64(time.Second)), err
		}, Traffic: func(context.Context) (int64, error) {
			in, err := info("stats", "total_net_input_bytes")
			if err != nil {
				return 0, err
			}
			out, err := info("stats", "total_net_output_bytes")
			return int64(in + out), err
		}}, defaults.Redis},
	} {
		got, err := Measure(t.Context(), test.target)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", test.name, got)
		near(t, test.name+" counter", got.Counter, test.want.Counter, 0.25)
		near(t, test.name+" log", got.Log, test.want.Log, 0.25)
		near(t, test.name+" entry", got.Entry, test.want.Entry, 0.4)
		if got.Decision <= 0 || test.target.CPU != nil && got.Wire <= 0 {
			t.Errorf("%s: a decision takes %v and %v bytes", test.name, got.Decision, got.Wire)
		}
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if got < want*(1-tolerance) || got > want*(1+tolerance) {
		t.Errorf("%s: measured %.1f bytes, plans count with %.1f", what, got, want)
	}
}
