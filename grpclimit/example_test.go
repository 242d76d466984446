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

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// One request an hour for each customer, with counters in memory.
func Example() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerHour(1), penstock.WithName("calls"))
	if err != nil {
		log.Fatal(err)
	}

	limits := grpclimit.Limit(limiter, grpclimit.ByMetadata("x-customer"))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limits.Unary()),
		grpc.ChainStreamInterceptor(limits.Stream()),
	)
	defer server.Stop()
	client := healthClient(server)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-customer", "c1")
	for _, ctx := range []context.Context{ctx, ctx, context.Background()} {
		_, err := client.Check(ctx, new(grpc_health_v1.HealthCheckRequest))
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
	// InvalidArgument
}

// healthClient serves on a free port and connects to it.
func healthClient(server *grpc.Server) grpc_health_v1.HealthClient {
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
	return grpc_health_v1.NewHealthClient(conn)
}

// A server limits its own requests by rules: no other process is needed.
func Example_rules() {
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

	limiter, err := grpclimit.New(decider, grpclimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limiter.Unary()),
		grpc.ChainStreamInterceptor(limiter.Stream()),
	)
	defer server.Stop()
	client := healthClient(server)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-customer", "c1")
	for range 3 {
		var header metadata.MD
		_, err := client.Check(ctx, new(grpc_health_v1.HealthCheckRequest), grpc.Header(&header))
		fmt.Println(status.Code(err), header.Get("ratelimit-policy"), "told to wait:", len(header.Get("retry-after")) > 0)
	}
	// Output:
	// OK ["per-customer";q=2;w=3600] told to wait: false
	// OK ["per-customer";q=2;w=3600] told to wait: false
	// ResourceExhausted ["per-customer";q=2;w=3600] told to wait: true
}
