package doors

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/penstock-io/penstock/bench/lab"
)

// Role is the role of a child process that runs one of the reference servers.
const Role = "door"

// Serve runs a reference server: its kind, its listen address, and the server that it asks.
func Serve(args []string) error {
	handler, err := handlerOf(args[0], args[2])
	if err != nil {
		return err
	}
	return http.ListenAndServe(args[1], handler)
}

func (b *bench) startBare(kind, asked string) *lab.Server {
	addr := lab.FreeAddr()
	return b.Start(b.dir, "bare-"+kind, addr, lab.Self(Role, kind, addr, asked))
}

func handlerOf(kind, asked string) (http.Handler, error) {
	switch kind {
	case "proxy":
		return bareProxyTo(asked)
	case "handler": // the least that a denial costs: a few headers and a short body
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"title":"Quota exceeded","status":429}`)
		}), nil
	case "json":
		return http.HandlerFunc(answerJSON), nil
	}
	return appOf(kind, asked)
}

func bareProxyTo(upstream string) (http.Handler, error) {
	target, err := url.Parse("http://" + upstream)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1024
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
	}, nil
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
	type limit struct {
		Rule       string `json:"rule"`
		Algorithm  string `json:"algorithm"`
		Limit      int64  `json:"limit"`
		WindowMS   int64  `json:"window_ms"`
		Allowed    bool   `json:"allowed"`
		Remaining  int64  `json:"remaining"`
		RetryAfter int64  `json:"retry_after_ms"`
		ResetAfter int64  `json:"reset_after_ms"`
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		Allowed    bool    `json:"allowed"`
		Rule       string  `json:"rule"`
		Reason     string  `json:"reason"`
		Quality    string  `json:"quality"`
		Limit      int64   `json:"limit"`
		Remaining  int64   `json:"remaining"`
		RetryAfter int64   `json:"retry_after_ms"`
		ResetAfter int64   `json:"reset_after_ms"`
		Limits     []limit `json:"limits"`
	}{true, "per-user", "ok", "exact", 1e9, 1e9 - call.Cost, 0, 1, []limit{{"per-user", "token_bucket", 1e9, 60_000, true, 1e9 - call.Cost, 0, 1}}})
}
