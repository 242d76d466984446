package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/internal/openapitest"
)

var openAPI = sync.OnceValues(func() (*openapitest.Document, error) { return openapitest.Read(docs.OpenAPI) })

func theDocument(t testing.TB) *openapitest.Document {
	t.Helper()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// conforms checks that the document describes the response.
func conforms(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusMethodNotAllowed || w.Code == http.StatusNotFound && !strings.Contains(r.URL.Path, "/reservations/") && r.URL.Path != "/v1/report" {
		return // not described by the document
	}
	method := r.Method
	if r.URL.Path == "/v1/auth" && method != http.MethodHead {
		method = http.MethodGet
	}
	theDocument(t).Conforms(t, method, template(r.URL.Path), w)
}

// template returns a path as the document names it.
func template(path string) string {
	rest, ok := strings.CutPrefix(path, "/v1/reservations/")
	if !ok {
		return path
	}
	_, verb, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix("/v1/reservations/{id}/"+verb, "/")
}
