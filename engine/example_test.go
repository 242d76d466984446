package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const exampleRules = `
rules:
  - name: search-per-user
    match: {path: /search}
    key: [user]
    limits: [{rate: 2/1d, algorithm: token_bucket}]
  - name: uploads
    match: {path: /upload}
    key: [user]
    limits: [{concurrent: 1, ttl: 1h}]
`

// embed returns an engine that decides in this process.
func embed(store penstock.Store) (*engine.Engine, error) {
	doc, err := rules.Parse("rules.yaml", []byte(exampleRules))
	if err != nil {
		return nil, err
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{Provided: []string{"user"}})
	if err != nil {
		return nil, err
	}
	return engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
}

// A limiter within an application: rules as text, state in memory.
func Example() {
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	e, err := embed(store)
	if err != nil {
		log.Fatal(err)
	}
	call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/search"}, {Name: "user", Value: "alice"}}}
	var v penstock.Verdict
	for range 3 {
		if err := e.Decide(context.Background(), &call, &v); err != nil {
			log.Print(err) // the verdict follows the rules' failure policies
		}
		fmt.Println(v.Allowed, v.Reason, v.Rule, v.Decision.Remaining, v.Decision.RetryAfter.Round(time.Hour))
	}
	// Output:
	// true ok search-per-user 1 0s
	// true ok search-per-user 0 0s
	// false over_limit search-per-user 0 12h0m0s
}

// A permit of a concurrency limit is free again when its request has finished.
func ExampleEngine_Conclude() {
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	e, err := embed(store)
	if err != nil {
		log.Fatal(err)
	}
	call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/upload"}, {Name: "user", Value: "alice"}}}
	var first, second penstock.Verdict
	decide := func(v *penstock.Verdict) {
		if err := e.Decide(context.Background(), &call, v); err != nil {
			log.Print(err)
		}
		fmt.Println(v.Allowed, v.Reason)
	}
	decide(&first)
	decide(&second)
	end := penstock.Conclusion{Reservation: first.Reservation, Verb: penstock.Settle}
	if err := e.Conclude(context.Background(), &end, &first); err != nil {
		log.Print(err)
	}
	decide(&second)
	// Output:
	// true ok
	// false over_limit
	// true ok
}
