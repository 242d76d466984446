package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// A server limits its own calls: no other process is needed.
func Example() {
	doc, err := rules.Parse("rules.yaml", []byte(`
attributes:
  customer: {header: X-Customer}
rules:
  - name: per-customer
    match: {path: "/grpc.health.v1.Health/{name}"}
    key: [customer]
    limits: [{rate: 2/1h, burst: 2, algorithm: token_bucket}]
`))
	if err != nil {
		log.Fatal(err)
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "the same on all nodes"})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	decider, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		log.Fatal(err)
	}

	var options grpclimit.Options
	options.Sources = decider.Sources
	limiter, err := grpclimit.New(decider, options)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limiter.Unary()),
		grpc.ChainStreamInterceptor(limiter.Stream()),
	)
	defer server.Stop()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-customer", "c1")
	for range 3 {
		var header metadata.MD
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, new(grpc_health_v1.HealthCheckRequest), grpc.Header(&header))
		fmt.Println(status.Code(err), header.Get("ratelimit-policy"), "told to wait:", len(header.Get("retry-after")) > 0)
	}
	// Output:
	// OK ["per-customer";q=2;w=3600] told to wait: false
	// OK ["per-customer";q=2;w=3600] told to wait: false
	// ResourceExhausted ["per-customer";q=2;w=3600] told to wait: true
}
