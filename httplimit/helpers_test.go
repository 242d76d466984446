package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

func compile(t testing.TB, text string) *rules.Snapshot {
	t.Helper()
	doc, _ := rules.Parse("rules.yaml", []byte(text)) // Compile also reports its errors
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "of the tests"})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func newEngine(t testing.TB, text string) *engine.Engine {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(compile(t, text))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newLimiter(t testing.TB, text string, o Options) *Limiter {
	t.Helper()
	e := newEngine(t, text)
	o.Sources = e.Sources
	l, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newReader(t testing.TB, o ReaderOptions) *Reader {
	t.Helper()
	r, err := NewReader(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newWriter(t testing.TB, styles ...string) *Writer {
	t.Helper()
	w, err := NewWriter(WriterOptions{Headers: styles})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sources(s ...attribute.Source) func() []attribute.Source {
	return func() []attribute.Source { return s }
}

func request(target string) *http.Request { return httptest.NewRequest("GET", target, nil) }

// served answers a request by a handler, without a network.
func served(h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

// lines returns the lines of a header as it was spelled.
func lines(h http.Header, name string) []string { return h[name] }
