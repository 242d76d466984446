package deploy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const limit = 3

const ruleText = `
attributes:
  user: {header: X-User}
  page: {query: page}
rules:
  - {name: per-ip, match: {path: "/limited/{rest...}"}, key: [ip], limits: [{rate: 3/h, burst: 3, algorithm: token_bucket}]}
  - {name: failed-logins, match: {path: /login}, key: [ip], limits: [{rate: 3/360d, algorithm: fixed_window}], charge_if: status == 401}
  - {name: blocked, match: {path: /blocked}, key: [], limits: [0/1h]}
lists:
  deny:
    - {user: mallory}
`

// A penstockServer is the service that proxies ask: the real one in this process, which records the requests.
type penstockServer struct {
	*httptest.Server
	engine *engine.Engine

	mu    sync.Mutex
	asked []penstock.Call

	open atomic.Int64 // requests that reserved something and were not reported
}

func startPenstock(t *testing.T) *penstockServer {
	t.Helper()
	return startPenstockWith(t, ruleText)
}

func startPenstockWith(t *testing.T, text string) *penstockServer {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{Secret: "test"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{Sources: e.Sources, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &penstockServer{engine: e}
	h, err := api.New(api.Options{Hosts: webguard.Hosts{Loopback: true}, Decider: p, Concluder: p, Reader: reader, Writer: writer})
	if err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewServer(h)
	t.Cleanup(p.Close)
	return p
}

func (p *penstockServer) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	p.mu.Lock()
	asked := *c
	asked.Attributes = append([]penstock.Attribute(nil), c.Attributes...)
	p.asked = append(p.asked, asked)
	p.mu.Unlock()
	err := p.engine.Decide(ctx, c, v)
	if v.Reservation != "" {
		p.open.Add(1)
	}
	return err
}

func (p *penstockServer) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	err := p.engine.Conclude(ctx, c, v)
	if err == nil {
		p.open.Add(-1)
	}
	return err
}

// last returns the last request.
func (p *penstockServer) last(t *testing.T) *penstock.Call {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		t.Fatal("Penstock was not asked")
	}
	return &p.asked[len(p.asked)-1]
}

// startBackend starts the server that the proxies protect. It echoes what it was sent.
func startBackend(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.URL.Query().Get("password") == "wrong" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Backend", r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		_, _ = w.Write([]byte(r.Method + " " + r.RequestURI + " " + string(body)))
	}))
	t.Cleanup(s.Close)
	return s
}
