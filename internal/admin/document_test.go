package admin_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/openapitest"
)

var openAPI = sync.OnceValues(func() (*openapitest.Document, error) { return openapitest.Read(docs.AdminOpenAPI) })

func theDocument(t testing.TB) *openapitest.Document {
	t.Helper()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var templates = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range admin.Routes() {
		mux.HandleFunc(route.Method+" "+route.Path, func(http.ResponseWriter, *http.Request) {})
	}
	return mux
})

// template returns a path as the document names it, or "" if it does not.
func template(r *http.Request) string {
	_, pattern := templates().Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// conforms checks that the document describes the response.
func conforms(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	path := template(r)
	if path == "" {
		return // not described by the document
	}
	if w.Code == http.StatusForbidden && (r.Host != "localhost" || r.Header.Get("Sec-Fetch-Site") != "") {
		return // any response
	}
	theDocument(t).Conforms(t, r.Method, path, w)
}

func TestDocumentHasEveryRoute(t *testing.T) {
	var documented, served []string
	for name, operation := range theDocument(t).Operations() {
		role := operation["x-role"].(string)
		documented = append(documented, name+" "+role)
		if open := len(operation["security"].([]any)) == 0; open != (role == "anybody") {
			t.Errorf("%s: security and role differ", name)
		}
	}
	for _, r := range admin.Routes() {
		served = append(served, r.Method+" "+r.Path+" "+r.Role.String())
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved     %q", documented, served)
	}
}

func TestDocumentIsSound(t *testing.T) { theDocument(t).Sound(t) }

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	w := s.serve(s.request("GET", "/openapi.json", ""))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), docs.AdminOpenAPI) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}
