package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// An application asks a service at some address, here one in the same process.
func ExampleNewHTTP() {
	service := httptest.NewServer(exampleAPI(exampleEngine()))
	defer service.Close()

	limits, err := client.NewHTTP(service.URL, client.Options{Timeout: 30 * time.Second}) // real programs use a shorter one
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	for range 3 {
		fmt.Println(mayLogIn(limits, "alice"))
	}
	// Output:
	// welcome, 1 left
	// welcome, 0 left
	// denied by logins: over_limit
}

// mayLogIn asks any decider: a client of either kind, or an engine.
func mayLogIn(limits penstock.Decider, user string) string {
	call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/login"}, {Name: "user", Value: user}}}
	var v penstock.Verdict
	if err := limits.Decide(context.Background(), &call, &v); err != nil {
		log.Print(err) // the verdict follows Options.OnError
	}
	if !v.Allowed {
		return fmt.Sprintf("denied by %s: %v", v.Rule, v.Reason)
	}
	return fmt.Sprintf("welcome, %d left", v.Decision.Remaining)
}

func exampleEngine() *engine.Engine {
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
	return e
}

func exampleAPI(e *engine.Engine) http.Handler {
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{})
	if err != nil {
		log.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := api.New(api.Options{Decider: e, Concluder: e, Reader: reader, Writer: writer})
	if err != nil {
		log.Fatal(err)
	}
	return handler
}
