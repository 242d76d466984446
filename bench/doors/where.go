package doors

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const alone = "application alone"

// places are where an application's requests can be limited.
var places = []struct {
	name  string
	start func(b *bench) *lab.Server
}{
	{alone, func(b *bench) *lab.Server { return b.startBare("app", "") }},
	{"middleware, in process", func(b *bench) *lab.Server { return b.startBare("app-inside", "") }},
	{"application asks over gRPC", func(b *bench) *lab.Server {
		return b.startBare("app-grpc", b.servePenstock(true, listenGRPC).Addr)
	}},
	{"application asks over HTTP", func(b *bench) *lab.Server {
		return b.startBare("app-http", b.servePenstock(true, listenHTTP).Addr)
	}},
	{"gateway in front", func(b *bench) *lab.Server { return b.startGateway(b.startBare("app", "").Addr, true) }},
	{"nginx in front, no limits", func(b *bench) *lab.Server { return b.nginxInFront("front", "", "", "") }},
	{"nginx with forward-auth", func(b *bench) *lab.Server {
		asks := b.servePenstock(true, listenHTTP+behindProxy).Addr
		return b.nginxInFront("front-asking", fmt.Sprintf("upstream penstock { server %s; keepalive 16; }", asks), "auth_request /_penstock;", `location = /_penstock {
    internal;
    proxy_pass http://penstock/v1/auth?deny_status=403;
    proxy_pass_request_body off; proxy_set_header Content-Length "";
    proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Original-URI $request_uri;
    proxy_set_header X-Original-Method $request_method;
    proxy_set_header X-Forwarded-Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }`)
	}},
}

// nginxInFront starts an application and nginx in front of it, with further parts of its configuration.
func (b *bench) nginxInFront(name, upstreams, auth, location string) *lab.Server {
	return b.nginx(name, fmt.Sprintf(`%s
upstream app { server %s; keepalive 16; }
server {
  listen ADDRESS;
  location / { %s proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
  %s
}`, upstreams, b.startBare("app", "").Addr, auth, location))
}

// appOf returns an application that is limited in the way of its kind.
func appOf(kind, asked string) (http.Handler, error) {
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	var decider penstock.Decider
	var err error
	switch kind {
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
