package doors

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
)

// A load is what wrk sends to a server.
type load struct {
	url         string
	connections int
	script      string // Lua script for wrk; "": GET
}

// A result is what wrk measured.
type result struct {
	requests int64
	rate     float64 // per second
	p50, p99 float64 // µs
	refused  int64   // answered with a status other than 2xx and 3xx
}

// run runs wrk. The server must answer every request.
func (l load) run(ctx context.Context, dir string, length time.Duration) (result, error) {
	args := []string{"--threads", "1", "--connections", strconv.Itoa(l.connections), "--duration", fmt.Sprintf("%.0fs", max(1, length.Seconds())), "--latency"}
	if l.script != "" {
		args = append(args, "--script", lab.Write(dir, "load.lua", l.script))
	}
	out, err := exec.CommandContext(ctx, "wrk", append(args, l.url)...).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk %s: %w\n%s", l.url, err, out)
	}
	return parse(string(out))
}

var (
	figures     = regexp.MustCompile(`(?s)50%\s+([0-9.]+)(us|ms|s)\n.*99%\s+([0-9.]+)(us|ms|s)\n\s*(\d+) requests in .*Requests/sec:\s*([0-9.]+)`)
	refusedLine = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	errorsLine  = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

func parse(text string) (r result, err error) {
	if m := errorsLine.FindString(text); m != "" {
		return r, fmt.Errorf("wrk: %s", m)
	}
	m := figures.FindStringSubmatch(text)
	if m == nil {
		return r, fmt.Errorf("wrk printed something else:\n%s", text)
	}
	number := func(s string) float64 {
		n, _ := strconv.ParseFloat(s, 64) // digits, says the expression
		return n
	}
	unit := map[string]float64{"us": 1, "ms": 1e3, "s": 1e6}
	r = result{requests: int64(number(m[5])), rate: number(m[6]), p50: number(m[1]) * unit[m[2]], p99: number(m[3]) * unit[m[4]]}
	if m := refusedLine.FindStringSubmatch(text); m != nil {
		r.refused = int64(number(m[1]))
	}
	return r, nil
}
