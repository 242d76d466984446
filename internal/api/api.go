package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/readiness"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/internal/wire"
)

// A Batcher decides many requests faster than one by one.
type Batcher interface {
	DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error)
}

// Options configure the API.
type Options struct {
	Decider   penstock.Decider
	Concluder penstock.Concluder
	Batch     Batcher // nil: the requests of a batch are decided one after another

	// Reader and Writer serve forward-auth. The API answers only proxies that the reader trusts.
	Reader *httplimit.Reader
	Writer *httplimit.Writer

	// Envoy serves Envoy's rate limit service as JSON, at /json; nil: not found.
	Envoy http.Handler

	// Ready reports whether requests should be sent to this node; nil: always.
	Ready func() readiness.State

	Hosts  webguard.Hosts // names under which the API is reached
	Limits Limits
	Log    *slog.Logger // nil: nothing is logged
}

// Limits of a request; 0 is the default.
type Limits struct {
	Body      int64 // bytes; default [wire.MaxBody]
	BatchBody int64 // default [wire.MaxBatchBody]
}

type api struct {
	Options
	exchanges sync.Pool // of *exchange
	requests  requests

	untrusted, foreign sync.Once // only the first is logged: the others would repeat it
}

// A route is one operation of the OpenAPI document.
type route struct {
	method string // "": any
	path   string
	serve  http.HandlerFunc
}

// New returns the handler of the API.
func New(o Options) (http.Handler, error) {
	var errs []error
	need := func(missing bool, what string) {
		if missing {
			errs = append(errs, errors.New("new decision API: it needs "+what))
		}
	}
	need(o.Decider == nil, "a decider")
	need(o.Concluder == nil, "a concluder")
	need(o.Reader == nil, "a reader")
	need(o.Writer == nil, "a writer")
	if o.Limits.Body < 0 || o.Limits.BatchBody < 0 {
		errs = append(errs, fmt.Errorf("new decision API: bodies of %d and %d bytes must not be negative", o.Limits.Body, o.Limits.BatchBody))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o.Limits.Body = cmp.Or(o.Limits.Body, wire.MaxBody)
	o.Limits.BatchBody = cmp.Or(o.Limits.BatchBody, wire.MaxBatchBody)
	if o.Ready == nil {
		o.Ready = func() (ready readiness.State) { return ready }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{Options: o}
	a.exchanges.New = func() any { return new(requestState) }
	return webguard.Handler(a.mux(), webguard.Options{
		Hosts: o.Hosts, Open: []string{"/healthz", "/readyz", "/healthcheck"}, Relayed: []string{forwardAuth},
		Refuse: func(w http.ResponseWriter, reason string) {
			a.foreign.Do(func() { a.Log.Warn("request refused", slog.String("reason", reason)) })
			fail(w, http.StatusForbidden, reason)
		},
	}), nil
}

// forwardAuth is the endpoint for proxies. They forward headers of their clients, including Origin.
const forwardAuth = "/v1/auth"

func (a *api) routes() []route {
	return []route{
		{"POST", "/v1/check", a.check},
		{"POST", "/v1/check/batch", a.batch},
		{"POST", "/v1/reserve", a.reserve},
		{"POST", "/v1/reservations/{id}/settle", a.settle},
		{"POST", "/v1/reservations/{id}/renew", a.renew},
		{"DELETE", "/v1/reservations/{id}", a.release},
		{"POST", "/v1/report", a.report},
		{"", forwardAuth, a.auth},
		{"GET", "/openapi.json", openAPI},
		{"GET", "/healthz", healthy},
		{"GET", "/healthcheck", a.healthcheck},
		{"GET", "/readyz", func(w http.ResponseWriter, _ *http.Request) { readiness.Write(w, a.Ready()) }},
	}
}

func (a *api) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.HandleFunc(strings.TrimSpace(r.method+" "+r.path), r.serve)
		if r.method != "" {
			mux.HandleFunc(r.path, otherMethod(r.method))
		}
	}
	if a.Envoy != nil {
		mux.Handle("/json", a.Envoy)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Sprintf("no such path %.200q; /openapi.json lists all paths", r.URL.Path))
	})
	return mux
}

// otherMethod answers requests with a wrong method.
func otherMethod(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		allow := allowed
		if allow == "GET" {
			allow = "GET, HEAD"
		}
		w.Header().Set("Allow", allow)
		fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("method %.20s is not allowed; use %s", r.Method, allow))
	}
}

func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(docs.OpenAPI)
}

// healthy reports that the process is serving.
func healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n"))
}

// healthcheck reports whether the node is ready, in the way that probes of envoyproxy/ratelimit expect: with 500 if
// it is not.
func (a *api) healthcheck(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err := a.Ready().NotReady; err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(err.Error() + "\n"))
		return
	}
	_, _ = w.Write([]byte("OK"))
}
