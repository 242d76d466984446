package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Two requests an hour from each address, with counters in memory.
func Example() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerHour(2), penstock.WithName("hello"))
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(httplimit.Limit(limiter, httplimit.ByIP())(hello))
	defer server.Close()

	for range 3 {
		res, err := http.Get(server.URL)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		fmt.Println(res.Status, res.Header.Get("RateLimit-Policy"), res.Header.Get("Retry-After") != "")
	}
	// Output:
	// 200 OK "hello";q=2;w=3600 false
	// 200 OK "hello";q=2;w=3600 false
	// 429 Too Many Requests "hello";q=2;w=3600 true
}

// Options are for New: here, addresses from a proxy's header, both styles of headers, and a log of errors.
func ExampleNew() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerSecond(10).TokenBucket(20))
	if err != nil {
		log.Fatal(err)
	}
	var o httplimit.Options
	o.Key = httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/8"))
	o.ProxyHeader = "X-Real-IP"
	o.Headers = []string{httplimit.StyleIETF, httplimit.StyleXRateLimit}
	o.OnError = func(req *http.Request, err error) { log.Print(req.URL.Path, ": ", err) }
	middleware, err := httplimit.New(limiter, o)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", middleware.Wrap(http.NotFoundHandler()))
	// Output:
}

// Per user if the program knows one, otherwise per address.
func ExampleByFunc() {
	key := httplimit.ByFunc(func(req *http.Request) (string, error) {
		if user, _, ok := req.BasicAuth(); ok { // verified by a handler before
			return "user:" + user, nil
		}
		host, _, err := net.SplitHostPort(req.RemoteAddr)
		return "ip:" + host, err
	})
	_ = key // for httplimit.Limit
	// Output:
}

// A handler behind rules, with rules and counters in the same process.
func Example_rules() {
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

	limiter, err := httplimit.New(decider, httplimit.Options{})
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

// NormalizePath returns the path to forward, so that the upstream server serves what the rules have matched.
func ExampleNormalizePath() {
	path, err := httplimit.NormalizePath("//public/%2e%2e/admin%2Fusers")
	fmt.Println(path, err)
	_, err = httplimit.NormalizePath(`/public/..;/admin`)
	fmt.Println(err)
	// Output:
	// /admin%2Fusers <nil>
	// invalid path "/public/..;/admin": a dot segment has parameters, which some servers resolve
}
