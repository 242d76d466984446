// Package doors measures what limiting costs a request at each place where it can be done: in Penstock's gateway
// compared with other proxies and a bare one, in its decision API compared with a bare handler, and, as a client
// sees it, in front of an application, beside it and inside it.
//
// Every contestant runs in its own process, so that its processor time can be read. wrk generates the load. nginx
// is the upstream, because it costs next to nothing.
package doors

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

const connections = 64

type bench struct {
	*lab.Bench
	dir      string
	penstock string // the binary
	upstream *lab.Server
}

// Measure runs the benchmark.
func Measure(b *lab.Bench) report.Section {
	for _, program := range []string{"wrk", "nginx", "haproxy", "caddy"} {
		if _, err := exec.LookPath(program); err != nil {
			lab.Check(fmt.Errorf("%s is needed, Debian's packages are called the same: %w", program, err))
		}
	}
	d := &bench{Bench: b, dir: b.TempDir("")}
	d.penstock = filepath.Join(d.dir, "penstock")
	b.Build("..", d.penstock, "./cmd/penstock")
	upstream := values{Name: "upstream", Dir: d.dir, Addr: lab.FreeAddr()}
	d.upstream = d.nginx(upstream, upstream.fill("upstream.conf"))
	s := report.Section{Name: "doors", Title: "What a request pays for being limited", Notes: []string{
		"Load, contestants and upstream share this machine's processors: rates say less than processor time.",
		"Caddy has no limiter of its own: it only passes on.",
		"Where remembered denials are compared, each nginx has one worker, elsewhere one for each processor.",
	}}
	d.gateways(&s, true)
	d.gateways(&s, false)
	d.cached(&s)
	d.decisions(&s)
	d.where(&s)
	return s
}

// A contestant is measured by one load, in turn with the others.
type contestant struct {
	name    string
	role    report.Role
	allow   bool
	servers []*lab.Server // the first gets the load; the processor time of all counts
	load
}

func newContestant(name string, role report.Role, allow bool, servers ...*lab.Server) contestant {
	return contestant{name, role, allow, servers, load{url: "http://" + servers[0].Addr + "/", connections: connections}}
}

const cpu, p50, p99 = 0, 2, 3 // columns

// compete runs all contestants in turn, and adds a table to the section.
func (b *bench) compete(s *report.Section, title, reference string, all ...contestant) *report.Table {
	t := report.NewTable(title, report.Less.In("µs", "CPU per request"), report.More.In("/s", "requests")).Against(reference)
	t.Columns = append(t.Columns, report.Less.In("µs", "p50", "p99")...)
	s.Tables = append(s.Tables, t)
	for range b.Repeat {
		for _, c := range all {
			b.Step("%s: %s", title, c.name)
			before := c.cpu()
			r := lab.Must(c.run(b, b.dir, b.Cell(5*time.Second)))
			used := c.cpu() - before
			switch passed := r.requests - r.refused; {
			case c.allow && r.refused > 0:
				lab.Check(fmt.Errorf("%d of %d requests were refused; none should be", r.refused, r.requests))
			case !c.allow && passed > 1:
				lab.Check(fmt.Errorf("%d of %d requests passed; at most one should", passed, r.requests))
			}
			t.Add(c.name, c.role, cpu, used.Seconds()*1e6/float64(r.requests), r.rate, r.p50, r.p99)
		}
	}
	return t
}

func (c *contestant) cpu() (sum time.Duration) {
	for _, s := range c.servers {
		sum += lab.Must(lab.CPU(s.Pid()))
	}
	return sum
}

// atMost adds a goal for the processor time of one row, in multiples of another.
func atMost(s *report.Section, t *report.Table, name, row, other string, want float64) {
	s.AtMost(name, want, t.Value(row, cpu)/t.Value(other, cpu), "×")
}

// gateways compares proxies with limits that allow everything, or with limits that deny everything.
func (b *bench) gateways(s *report.Section, allow bool) {
	var all []contestant
	for _, p := range proxies {
		if allow || p.denies {
			all = append(all, newContestant(p.name, p.role, allow, p.start(b, allow)))
		}
	}
	if allow {
		t := b.compete(s, fmt.Sprintf("Proxies, every request allowed (%d connections)", connections), bareProxy, all...)
		atMost(s, t, "gateway, allowed: processor time vs bare ReverseProxy", gatewayName, bareProxy, 1.1)
		atMost(s, t, "gateway, allowed: processor time vs nginx", gatewayName, nginxName, 2)
		return
	}
	all = append(all, newContestant(bareHandler, report.Ceiling, false, b.startBare("handler", "")))
	t := b.compete(s, fmt.Sprintf("Proxies, every request denied (%d connections)", connections), bareHandler, all...)
	atMost(s, t, "gateway, denied: processor time vs bare handler", gatewayName, bareHandler, 1.4)
	atMost(s, t, "gateway, denied: processor time vs nginx", gatewayName, nginxName, 1.3)
}

// decisions compares the decision API with a handler that decides nothing.
func (b *bench) decisions(s *report.Section) {
	const check = "Penstock /v1/check"
	ours := newContestant(check, report.Ours, true, b.startPenstock(values{Listener: "http", Allow: true}))
	ours.url += "v1/check"
	bare := newContestant(bareJSON, report.Ceiling, true, b.startBare("json", ""))
	ours.script = values{}.fill("check.lua")
	bare.script = ours.script
	t := b.compete(s, fmt.Sprintf("Decision API (%d connections)", connections), bareJSON, ours, bare)
	atMost(s, t, "/v1/check: processor time vs bare JSON handler", check, bareJSON, 1.5)
}

// where compares the places where an application can be limited, as a single client sees them.
func (b *bench) where(s *report.Section) {
	var all []contestant
	for _, p := range places {
		c := newContestant(p.name, report.Ours, true, p.start(b))
		c.connections = 1
		all = append(all, c)
	}
	t := b.compete(s, "Where to limit, one request at a time", alone, all...)
	base := t.Rows[0].Values
	for i, r := range t.Rows {
		t.Rows[i].Values = []report.Value{r.Values[p50], r.Values[p99], r.Values[p50] - base[p50], r.Values[p99] - base[p99]}
	}
	t.Columns = report.Less.In("µs", "p50", "p99")
	t.Against(alone)
	t.Columns = append(t.Columns, report.Less.In("µs", "added to p50", "added to p99")...)
}

// A load is what wrk sends to a server.
type load struct {
	url         string
	connections int
	script      string // Lua script for wrk; "": GET
}

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
