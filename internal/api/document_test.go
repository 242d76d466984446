package api_test

import (
	"bytes"
	"mime"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock-io/penstock/docs"
)

// A document is docs/openapi.json, to look things up in.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
}

var openAPI = sync.OnceValues(func() (*document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.OpenAPI))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", root); err != nil {
		return nil, err
	}
	return &document{root: root.(map[string]any), compiler: c}, nil
})

func theDocument(t testing.TB) *document {
	t.Helper()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at is what a pointer leads to, through references. It returns where that really stands.
func (d *document) at(path ...string) (any, []string) {
	var found any = d.root
	var where []string
	for _, step := range path {
		object, ok := found.(map[string]any)
		if !ok || object[step] == nil {
			return nil, nil
		}
		found, where = object[step], append(where, step)
		if object, ok := found.(map[string]any); ok {
			if ref, ok := object["$ref"].(string); ok {
				found, where = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
		}
	}
	return found, where
}

func (d *document) schema(t testing.TB, path ...string) *jsonschema.Schema {
	t.Helper()
	pointer := "openapi.json#"
	for _, step := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
	}
	s, err := d.compiler.Compile(pointer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conforms checks that an answer is one that the document announces.
func conforms(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusMethodNotAllowed || w.Code == http.StatusNotFound && !strings.Contains(r.URL.Path, "/reservations/") {
		return // not asked by the document
	}
	d := theDocument(t)
	method := strings.ToLower(r.Method)
	if r.URL.Path == "/v1/auth" {
		method = "get"
	}
	response, where := d.at("paths", template(r.URL.Path), method, "responses", strconv.Itoa(w.Code))
	if response == nil {
		t.Fatalf("%s %s answers %d, which the document does not say", r.Method, r.URL.Path, w.Code)
	}
	if w.Body.Len() == 0 {
		if content, _ := d.at(append(where, "content")...); content != nil && r.Method != http.MethodHead {
			t.Errorf("%s %s: %d without a body", r.Method, r.URL.Path, w.Code)
		}
		return
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	_, where = d.at(append(where, "content", media, "schema")...)
	if where == nil {
		t.Fatalf("%s %s: %d of type %s, which the document does not say", r.Method, r.URL.Path, w.Code, media)
	}
	var value any = w.Body.String()
	if strings.HasSuffix(media, "json") {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.schema(t, where...).Validate(value); err != nil {
		t.Errorf("%s %s: %v\n%s", r.Method, r.URL.Path, err, w.Body)
	}
}

// template is a path as the document names it.
func template(path string) string {
	rest, ok := strings.CutPrefix(path, "/v1/reservations/")
	if !ok {
		return path
	}
	_, verb, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix("/v1/reservations/{id}/"+verb, "/")
}
