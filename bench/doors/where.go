package doors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// A place is where an application's requests can be limited.
type place struct {
	name  string
	start func(ctx context.Context, b *bench) (*server, error)
}

const alone = "application alone"

var places = []place{
	{alone, func(ctx context.Context, b *bench) (*server, error) { return startBare(ctx, b.dir, "app", "") }},
	{"middleware, in process", func(ctx context.Context, b *bench) (*server, error) { return startBare(ctx, b.dir, "app-inside", "") }},
	{"application asks over gRPC", func(ctx context.Context, b *bench) (*server, error) {
		return b.asking(ctx, "app-grpc", "listen: {grpc: %q, gateway: \"\", http: \"\", admin: \"\"}\n")
	}},
	{"application asks over HTTP", func(ctx context.Context, b *bench) (*server, error) {
		return b.asking(ctx, "app-http", "listen: {http: %q, gateway: \"\", grpc: \"\", admin: \"\"}\n")
	}},
	{"gateway in front", func(ctx context.Context, b *bench) (*server, error) {
		app, err := b.keep(startBare(ctx, b.dir, "app", ""))
		if err != nil {
			return nil, err
		}
		return startPenstock(ctx, b.penstock, b.dir, app.addr, true)
	}},
	{"nginx in front, no limits", func(ctx context.Context, b *bench) (*server, error) { return b.nginxInFront(ctx, "") }},
	{"nginx with forward-auth", func(ctx context.Context, b *bench) (*server, error) {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		config := fmt.Sprintf("listen: {http: %q, gateway: \"\", grpc: \"\", admin: \"\"}\ntrusted_proxies: [127.0.0.0/8]\n", addr)
		if _, err := b.keep(servePenstock(ctx, b.penstock, b.dir, true, config, addr)); err != nil {
			return nil, err
		}
		return b.nginxInFront(ctx, addr)
	}},
}

// asking starts an application, and the Penstock server that it asks.
func (b *bench) asking(ctx context.Context, role, config string) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if _, err := b.keep(servePenstock(ctx, b.penstock, b.dir, true, fmt.Sprintf(config, addr), addr)); err != nil {
		return nil, err
	}
	return startBare(ctx, b.dir, role, addr)
}

// nginxInFront starts an application and nginx in front of it. nginx asks the server at asks first, if that is
// set.
func (b *bench) nginxInFront(ctx context.Context, asks string) (*server, error) {
	app, err := b.keep(startBare(ctx, b.dir, "app", ""))
	if err != nil {
		return nil, err
	}
	name, upstreams, auth, location := "front", "", "", ""
	if asks != "" {
		name = "front-asking"
		upstreams = fmt.Sprintf("upstream penstock { server %s; keepalive 16; }", asks)
		auth = "auth_request /_penstock;"
		location = `location = /_penstock {
    internal;
    proxy_pass http://penstock/v1/auth?deny_status=403;
    proxy_pass_request_body off; proxy_set_header Content-Length "";
    proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Original-URI $request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }`
	}
	return nginx(ctx, b.dir, name, func(addr string) string {
		return fmt.Sprintf(`%s
upstream app { server %s; keepalive 16; }
server {
  listen %s;
  location / { %s proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
  %s
}`, upstreams, app.addr, addr, auth, location)
	})
}

// where compares the places, as a single client sees them.
func (b *bench) where(ctx context.Context, s *report.Section) error {
	var all []*contestant
	for _, p := range places {
		server, err := b.keep(p.start(ctx, b))
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, &contestant{name: p.name, role: report.Ours, server: server, allow: true, load: load{url: "http://" + server.addr + "/", connections: 1}})
	}
	if err := b.compete(ctx, all); err != nil {
		return err
	}
	t := report.Table{Title: "Where to limit, one request at a time", Columns: []report.Column{
		{Name: "p50", Unit: "µs", Better: report.Less, Against: alone},
		{Name: "p99", Unit: "µs", Better: report.Less, Against: alone},
		{Name: "added to p50", Unit: "µs", Better: report.Less},
		{Name: "added to p99", Unit: "µs", Better: report.Less},
	}}
	base50, base99 := report.Median(all[0].p50s), report.Median(all[0].p99s)
	for _, c := range all {
		p50, p99 := report.Median(c.p50s), report.Median(c.p99s)
		t.Rows = append(t.Rows, report.Row{Name: c.name, Role: c.role, Values: []float64{p50, p99, p50 - base50, p99 - base99}})
	}
	s.Tables = append(s.Tables, t)
	return nil
}

// appOf returns an application that is limited in the way of its role.
func appOf(role, asked string) (http.Handler, error) {
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	var decider penstock.Decider
	var err error
	switch role {
	case "app":
		return app, nil
	case "app-inside":
		decider, err = inside()
	case "app-http":
		decider, err = client.NewHTTP("http://"+asked, client.Options{Timeout: time.Second})
	case "app-grpc":
		decider, err = grpcclient.New(asked, grpcclient.Options{Timeout: time.Second, Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}})
	default:
		err = errors.New("no such server")
	}
	if err != nil {
		return nil, err
	}
	limiter, err := httplimit.New(decider, httplimit.Options{})
	if err != nil {
		return nil, err
	}
	return limiter.Wrap(app), nil
}

func inside() (penstock.Decider, error) {
	doc, err := rules.Parse("rules", []byte("rules:\n  - {name: per-ip, key: [ip], limits: [{rate: 1000000000/1m, algorithm: token_bucket}]}\n"))
	if err != nil {
		return nil, err
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "bench"})
	if err != nil {
		return nil, err
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
}
