package doors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstock-io/penstock/bench/report"
)

// Options configure how much is measured.
type Options struct {
	Cell   time.Duration // duration of each load; whole seconds
	Repeat int
	Stderr *os.File // for progress
}

const connections = 64

// A bench is a run of the benchmark.
type bench struct {
	options  Options
	dir      string
	penstock string // the binary
	upstream *server
	servers  []*server
	progress *report.Progress
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	for _, program := range []string{"wrk", "nginx", "haproxy", "caddy"} {
		if _, err := exec.LookPath(program); err != nil {
			return s, fmt.Errorf("%s is needed, Debian's packages are called the same: %w", program, err)
		}
	}
	dir, err := os.MkdirTemp("", "penstock-doors-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir, penstock: filepath.Join(dir, "penstock")}
	defer b.stop()
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-trimpath", "-o", b.penstock, "./cmd/penstock").CombinedOutput(); err != nil {
		return s, fmt.Errorf("build penstock: %w\n%s", err, out)
	}
	if b.upstream, err = b.keep(startUpstream(ctx, dir)); err != nil {
		return s, err
	}
	s = report.Section{Name: "doors", Title: "What a request pays for being limited", Notes: []string{
		"Load, contestants and upstream share this machine's processors: rates say less than processor time.",
		"Caddy has no limiter of its own: it only passes on.",
	}}
	b.progress = report.Begin(o.Stderr, "doors", o.Repeat*(len(proxies(""))*2+2+4+2+len(places)))
	defer b.progress.End()
	for _, part := range []func(context.Context, *report.Section) error{b.gateways, b.cached, b.decisions, b.where} {
		if err := part(ctx, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (b *bench) keep(s *server, err error) (*server, error) {
	if err == nil {
		b.servers = append(b.servers, s)
	}
	return s, err
}

func (b *bench) stop() {
	for _, s := range b.servers {
		s.stop()
	}
}

// A contestant is measured by one load, in turn with the others.
type contestant struct {
	name   string
	role   report.Role
	server *server
	asks   []*server // their processor time counts too
	load   load
	allow  bool

	rates, p50s, p99s, cpus []float64
}

// compete runs all contestants in turn.
func (b *bench) compete(ctx context.Context, all []*contestant) error {
	for range b.options.Repeat {
		for _, c := range all {
			b.progress.Step("%s", c.name)
			if err := c.turn(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

func (c *contestant) turn(ctx context.Context, b *bench) error {
	c.load.length = b.options.Cell
	before, err := c.cpu()
	if err != nil {
		return err
	}
	r, err := c.load.run(ctx, b.dir)
	if err != nil {
		return err
	}
	after, err := c.cpu()
	if err != nil {
		return err
	}
	switch {
	case c.allow && r.refused > 0:
		return fmt.Errorf("%d of %d requests were refused; none should be", r.refused, r.requests)
	case !c.allow && r.requests-r.refused > 1:
		return fmt.Errorf("%d of %d requests passed; at most one should", r.requests-r.refused, r.requests)
	}
	c.rates = append(c.rates, r.rate)
	c.p50s = append(c.p50s, micros(r.p50))
	c.p99s = append(c.p99s, micros(r.p99))
	c.cpus = append(c.cpus, micros(after-before)/float64(r.requests))
	return nil
}

// cpu returns the processor time of the contestant's processes.
func (c *contestant) cpu() (sum time.Duration, err error) {
	for _, s := range append([]*server{c.server}, c.asks...) {
		used, err := s.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// gateways compares proxies with limits that allow everything, and with limits that deny everything.
func (b *bench) gateways(ctx context.Context, s *report.Section) error {
	for _, allow := range []bool{true, false} {
		var all []*contestant
		for _, p := range proxies(b.penstock) {
			if !allow && (p.name == bareProxy || p.role == report.Peer && p.name[0] == 'C') {
				continue // they deny nothing
			}
			server, err := b.keep(p.start(ctx, b.dir, b.upstream.addr, allow))
			if err != nil {
				return err
			}
			all = append(all, &contestant{name: p.name, role: p.role, server: server, allow: allow, load: load{url: "http://" + server.addr + "/", connections: connections}})
		}
		against, title := bareProxy, "Proxies, every request allowed"
		if !allow {
			server, err := b.keep(startBare(ctx, b.dir, "handler", ""))
			if err != nil {
				return err
			}
			all = append(all, &contestant{name: bareHandler, role: report.Ceiling, server: server, load: load{url: "http://" + server.addr + "/", connections: connections}})
			against, title = bareHandler, "Proxies, every request denied"
		}
		if err := b.compete(ctx, all); err != nil {
			return err
		}
		t := table(fmt.Sprintf("%s (%d connections)", title, connections), against, all)
		s.Tables = append(s.Tables, t)
		name, want := "gateway, allowed: processor time vs bare ReverseProxy", 1.1
		if !allow {
			name, want = "gateway, denied: processor time vs bare handler", 1.4
		}
		s.Goals = append(s.Goals, report.Goal{Name: name, Bound: report.AtMost, Want: want, Measured: t.Value(gatewayName, cpu) / t.Value(against, cpu), Unit: "×"})
		name, want = "gateway, allowed: processor time vs nginx", 2.0
		if !allow {
			name, want = "gateway, denied: processor time vs nginx", 1.3
		}
		s.Goals = append(s.Goals, report.Goal{Name: name, Bound: report.AtMost, Want: want, Measured: t.Value(gatewayName, cpu) / t.Value(nginxName, cpu), Unit: "×"})
	}
	return nil
}

// Columns of the tables.
const (
	cpu = iota
	rate
	p50
	p99
)

func table(title, against string, all []*contestant) report.Table {
	t := report.Table{Title: title, Columns: []report.Column{
		{Name: "CPU per request", Unit: "µs", Better: report.Less, Against: against},
		{Name: "requests", Unit: "/s", Better: report.More, Against: against},
		{Name: "p50", Unit: "µs", Better: report.Less},
		{Name: "p99", Unit: "µs", Better: report.Less},
	}}
	for _, c := range all {
		t.Rows = append(t.Rows, report.Row{Name: c.name, Role: c.role, Values: []float64{
			report.Median(c.cpus), report.Median(c.rates), report.Median(c.p50s), report.Median(c.p99s),
		}})
	}
	return t
}

// decisions compares the decision API with a handler that decides nothing.
func (b *bench) decisions(ctx context.Context, s *report.Section) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	ours, err := b.keep(servePenstock(ctx, b.penstock, b.dir, true, fmt.Sprintf("listen: {http: %q, gateway: \"\", grpc: \"\", admin: \"\"}\n", addr), addr))
	if err != nil {
		return err
	}
	bare, err := b.keep(startBare(ctx, b.dir, "json", ""))
	if err != nil {
		return err
	}
	const call = `wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"domain": "default", "attributes": {"ip": "192.0.2.7", "path": "/search", "method": "GET"}, "cost": 1}'
`
	const check = "Penstock /v1/check"
	all := []*contestant{
		{name: check, role: report.Ours, server: ours, allow: true, load: load{url: "http://" + ours.addr + "/v1/check", connections: connections, script: call}},
		{name: bareJSON, role: report.Ceiling, server: bare, allow: true, load: load{url: "http://" + bare.addr + "/", connections: connections, script: call}},
	}
	if err := b.compete(ctx, all); err != nil {
		return err
	}
	t := table(fmt.Sprintf("Decision API (%d connections)", connections), bareJSON, all)
	s.Tables = append(s.Tables, t)
	s.Goals = append(s.Goals, report.Goal{
		Name: "/v1/check: processor time vs bare JSON handler", Bound: report.AtMost, Want: 1.5,
		Measured: t.Value(check, cpu) / t.Value(bareJSON, cpu), Unit: "×",
	})
	return nil
}
