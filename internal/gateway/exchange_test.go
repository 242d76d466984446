package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
)

// Exchanges are reused: data of one request must not show up in another.
func TestExchangesAreKeptApart(t *testing.T) {
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(rw, "%s %s %s", req.Header.Get("X-Request-Id"), req.Header.Get("X-Forwarded-Host"), body)
	})
	s := start(t, setting{
		rules:   "rules: [{name: none, match: {path: /denied}, key: [ip], limits: [0/1h]}]",
		trusted: loopback, // so its request ID is accepted
		options: Options{Upstreams: upstreams(server)},
	})
	client := newClient(t)
	var ended sync.WaitGroup
	for i := range 8 {
		ended.Go(func() {
			for j := range 25 {
				id := fmt.Sprintf("%d-%d", i, j)
				for _, try := range []func(*http.Client, string, string) error{tryDenied, tryServed} {
					if err := try(client, s.url(""), id); err != nil {
						t.Errorf("%s: %v", id, err)
						return
					}
				}
			}
		})
	}
	ended.Wait()
}

func tryDenied(client *http.Client, url, id string) error {
	body, err := ask(client, "GET", url+"/denied", id, "")
	if err == nil && !strings.Contains(body, `"violated-policies":["none"]`) {
		err = fmt.Errorf("denied with %s", body)
	}
	return err
}

func tryServed(client *http.Client, url, id string) error {
	for method, sent := range map[string]string{"GET": "", "POST": "body of " + id} {
		body, err := ask(client, method, url+"/", id, sent)
		if want := fmt.Sprintf("%s %s.test %s", id, id, sent); err == nil && body != want {
			err = fmt.Errorf("the server was told %q, not %q", body, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request with an ID, and fails if the response has another one.
func ask(client *http.Client, method, url, id, sent string) (body string, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(sent))
	if err != nil {
		return "", err
	}
	req.Host = id + ".test"
	req.Header.Set("X-Request-Id", id)
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if told := res.Header.Get("X-Request-Id"); told != id {
		return "", fmt.Errorf("%s %s was called %s", method, url, told)
	}
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

func TestNewRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := newRequestID()
		if len(id) != 26 || !isRequestID(id) || seen[id] {
			t.Fatalf("%q, the %d.", id, len(seen)+1)
		}
		seen[id] = true
	}
}

// The context that the limiter gets stays as it is: a reservation may be renewed with it at any time.
func TestContextOfTheLimiterStays(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	s := newTestGateway(t, setting{options: Options{Upstreams: upstreams(server)}})
	var ctx context.Context
	limited := s.limited
	s.limited = http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		ctx = req.Context()
		limited.ServeHTTP(rw, req)
	})
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequest("POST", "/", strings.NewReader("body")))
	if rec.Code != http.StatusOK {
		t.Fatal(rec.Code, rec.Body)
	}
	if httptrace.ContextClientTrace(ctx) != nil {
		t.Error("forwarding the request has changed it")
	}
}
