package grpcclient_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// An application asks a service at some address, here one in the same process.
func ExampleNew() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := exampleService()
	defer service.Stop()
	go service.Serve(listener)

	limits, err := grpcclient.New(listener.Addr().String(), grpcclient.Options{
		Timeout: 30 * time.Second, // real programs use a shorter one
		Dial:    []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/login"}, {Name: "user", Value: "alice"}}}
	var v penstock.Verdict
	for range 3 {
		if err := limits.Decide(context.Background(), &call, &v); err != nil {
			log.Print(err) // the verdict follows Options.OnError
		}
		fmt.Println(v.Allowed, v.Rule, v.Reason, v.Decision.Remaining)
	}
	// Output:
	// true logins ok 1
	// true logins ok 0
	// false logins over_limit 0
}

func exampleService() *grpc.Server {
	doc, err := rules.Parse("rules.yaml", []byte(`
rules:
  - {name: logins, match: {path: /login}, key: [user], limits: [{rate: 2/1h, burst: 2, algorithm: token_bucket}]}
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
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		log.Fatal(err)
	}
	server, err := grpcapi.NewServer(grpcapi.Options{Decider: e, Concluder: e})
	if err != nil {
		log.Fatal(err)
	}
	return server
}
