package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// A handler behind a limit of two an hour, with rules and counters in the same process.
func Example() {
	doc, err := rules.Parse("rules.yaml", []byte(`
rules:
  - name: hello-per-ip
    match: {path: /hello}
    key: [ip]
    limits: [2/1h]
`))
	if err != nil {
		log.Fatal(err)
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	decider, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		log.Fatal(err)
	}

	limiter, err := httplimit.New(decider, httplimit.Options{
		ReaderOptions: httplimit.ReaderOptions{Sources: decider.Sources},
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	server := httptest.NewServer(limiter.Wrap(hello))
	defer server.Close()

	for range 3 {
		res, err := http.Get(server.URL + "/hello")
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		fmt.Println(res.Status, res.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// 200 OK "hello-per-ip";q=2;w=3600
	// 200 OK "hello-per-ip";q=2;w=3600
	// 429 Too Many Requests "hello-per-ip";q=2;w=3600
}

// What a path becomes before it is forwarded, so that the upstream serves what rules have matched.
func ExampleNormalizePath() {
	path, err := httplimit.NormalizePath("//public/%2e%2e/admin%2Fusers")
	fmt.Println(path, err)
	_, err = httplimit.NormalizePath(`/public/..;/admin`)
	fmt.Println(err)
	// Output:
	// /admin%2Fusers <nil>
	// invalid path "/public/..;/admin": a dot segment has parameters, which some servers resolve
}
