package stack_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/stack"
)

// A handler behind rules from a file, with counters in Redis that all nodes share.
func Example() {
	rulesFile, redisAddress, end := prepare() // yours are there already
	defer end()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	limits, err := stack.Open(context.Background(), stack.Config{
		Rules: rulesFile, Redis: redisstore.Options{Addresses: []string{redisAddress}, Timeout: 30 * time.Second},
		Secret: "the same on all nodes", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	middleware, err := httplimit.New(limits, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(middleware.Wrap(hello))
	defer server.Close()

	for range 3 {
		req, _ := http.NewRequest("GET", server.URL, nil)
		req.Header.Set("X-User", "alice")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		fmt.Println(res.Status, res.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// 200 OK "per-user";q=2;w=86400
	// 200 OK "per-user";q=2;w=86400
	// 429 Too Many Requests "per-user";q=2;w=86400
}

// prepare starts a Redis and writes rules to a file.
func prepare() (rulesFile, redisAddress string, end func()) {
	server, err := redistest.Launch(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "penstock-example-")
	if err != nil {
		log.Fatal(err)
	}
	rulesFile = filepath.Join(dir, "rules.yaml")
	text := `
attributes: {user: {header: X-User}}
rules:
  - {name: per-user, key: [user], limits: [{rate: 2/1d, algorithm: sliding_window_log}]}
`
	if err := os.WriteFile(rulesFile, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	return rulesFile, server.Addr, func() {
		server.Close()
		os.RemoveAll(dir)
	}
}
