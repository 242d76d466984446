package doors

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Role is the role of a child process that runs one of the reference servers.
const Role = "door"

// Serve runs a reference server: its kind, its listen address, and the server that it asks.
func Serve(args []string) error {
	return lab.Try(func() { lab.Check(http.ListenAndServe(args[1], handlerOf(args[0], args[2]))) })
}

func (b *bench) startBare(kind, asked string) *lab.Server {
	addr := lab.FreeAddr()
	return b.Start(b.dir, "bare-"+kind, addr, lab.Self(Role, kind, addr, asked))
}

// handlerOf returns a handler that limits nothing, or an application that is limited in the way of its kind.
func handlerOf(kind, asked string) http.Handler {
	var decider penstock.Decider
	switch kind {
	case "proxy":
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 1024
		target := &url.URL{Scheme: "http", Host: asked}
		return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() }}
	case "handler":
		return http.HandlerFunc(answerDenied)
	case "json":
		return http.HandlerFunc(answerJSON)
	case "app":
		return http.HandlerFunc(answerHello)
	case "app-inside":
		snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(values{Allow: true}.fill("rules.yaml"))}}, rules.Options{Secret: "bench"})
		lab.Check(err)
		decider = lab.Must(engine.New(engine.Options{Store: lab.Must(memstore.New(memstore.Options{})), Rules: engine.Fixed(snapshot)}))
	case "app-http":
		decider = lab.Must(client.NewHTTP("http://"+asked, client.Options{Timeout: time.Second}))
	case "app-grpc":
		dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		decider = lab.Must(grpcclient.New(asked, grpcclient.Options{Timeout: time.Second, Dial: dial}))
	default:
		lab.Check(errors.New("no such server"))
	}
	return lab.Must(httplimit.New(decider, httplimit.Options{})).Wrap(http.HandlerFunc(answerHello))
}

func answerHello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") }

// answerDenied is the least that a denial costs: a few headers and a short body.
func answerDenied(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "60")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"title":"Quota exceeded","status":429}`)
}

// answerJSON reads a request and answers with a verdict of realistic size, without deciding.
func answerJSON(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Domain     string            `json:"domain"`
		Attributes map[string]string `json:"attributes"`
		Cost       int64             `json:"cost"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	type decision struct {
		Allowed    bool   `json:"allowed"`
		Rule       string `json:"rule"`
		Limit      int64  `json:"limit"`
		Remaining  int64  `json:"remaining"`
		RetryAfter int64  `json:"retry_after_ms"`
		ResetAfter int64  `json:"reset_after_ms"`
	}
	type limit struct {
		decision
		Algorithm string `json:"algorithm"`
		WindowMS  int64  `json:"window_ms"`
	}
	overall := decision{true, "per-user", 1e9, 1e9 - call.Cost, 0, 1}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		decision
		Reason  string  `json:"reason"`
		Quality string  `json:"quality"`
		Limits  []limit `json:"limits"`
	}{overall, "ok", "exact", []limit{{overall, "token_bucket", 60_000}}})
}
