package doors

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// A load is what wrk sends to a server.
type load struct {
	url         string
	connections int
	length      time.Duration
	script      string // Lua script for wrk; "": GET
}

// A result is what wrk measured.
type result struct {
	requests int64
	rate     float64 // per second
	p50, p99 time.Duration
	refused  int64 // answered with a status other than 2xx and 3xx
}

// run runs wrk. The server must answer every request.
func (l load) run(ctx context.Context, dir string) (result, error) {
	args := []string{"--threads", "1", "--connections", strconv.Itoa(l.connections), "--duration", fmt.Sprintf("%.0fs", max(1, l.length.Seconds())), "--latency"}
	if l.script != "" {
		file := filepath.Join(dir, "load.lua")
		if err := os.WriteFile(file, []byte(l.script), 0o600); err != nil {
			return result{}, err
		}
		args = append(args, "--script", file)
	}
	out, err := exec.CommandContext(ctx, "wrk", append(args, l.url)...).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk %s: %w\n%s", l.url, err, out)
	}
	return parse(string(out))
}

var (
	requestsLine = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	rateLine     = regexp.MustCompile(`(?m)^Requests/sec:\s*([0-9.]+)`)
	percentile   = regexp.MustCompile(`(?m)^\s*(50|99)%\s+([0-9.]+)(us|ms|s)`)
	refusedLine  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	errorsLine   = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parse(text string) (r result, err error) {
	if m := errorsLine.FindString(text); m != "" {
		return r, fmt.Errorf("wrk: %s", m)
	}
	m := requestsLine.FindStringSubmatch(text)
	rate := rateLine.FindStringSubmatch(text)
	quantiles := percentile.FindAllStringSubmatch(text, -1)
	if m == nil || rate == nil || len(quantiles) != 2 {
		return r, fmt.Errorf("wrk printed something else:\n%s", text)
	}
	r.requests, _ = strconv.ParseInt(m[1], 10, 64)
	r.rate, _ = strconv.ParseFloat(rate[1], 64)
	for _, q := range quantiles {
		n, _ := strconv.ParseFloat(q[2], 64)
		unit := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}[q[3]]
		took := time.Duration(n * float64(unit))
		if q[1] == "50" {
			r.p50 = took
		} else {
			r.p99 = took
		}
	}
	if m := refusedLine.FindStringSubmatch(text); m != nil {
		r.refused, _ = strconv.ParseInt(m[1], 10, 64)
	}
	return r, nil
}
