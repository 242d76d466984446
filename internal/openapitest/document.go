// Package openapitest checks responses against an OpenAPI document, for the tests of the packages that
// serve the API.
package openapitest

import (
	"bytes"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Document is one to look things up in. Tests that run in parallel may share it.
type Document struct {
	Root map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// Read reads a document.
func Read(text []byte) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", root); err != nil {
		return nil, err
	}
	return &Document{Root: root.(map[string]any), compiler: c}, nil
}

// At is what a pointer leads to, through references. It returns where that really stands.
func (d *Document) At(path ...string) (any, []string) {
	var found any = d.Root
	var where []string
	for _, step := range path {
		object, ok := found.(map[string]any)
		if !ok || object[step] == nil {
			return nil, nil
		}
		found, where = object[step], append(where, step)
		if object, ok := found.(map[string]any); ok {
			if ref, ok := object["$ref"].(string); ok {
				found, where = d.At(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
		}
	}
	return found, where
}

// Schema compiles the one at a pointer.
func (d *Document) Schema(t testing.TB, path ...string) *jsonschema.Schema {
	t.Helper()
	pointer := "openapi.json#"
	for _, step := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
	}
	d.mu.Lock()
	s, err := d.compiler.Compile(pointer)
	d.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Operations are what can be asked, as "GET /path" and what the document says of it.
func (d *Document) Operations() map[string]map[string]any {
	all := map[string]map[string]any{}
	for path, item := range d.Root["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if method != "parameters" {
				all[strings.ToUpper(method)+" "+path] = operation.(map[string]any)
			}
		}
	}
	return all
}

// Conforms checks that an answer is one that the document announces for the method and the path as
// it names them.
func (d *Document) Conforms(t testing.TB, method, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	asked := strings.ToLower(strings.Replace(method, http.MethodHead, http.MethodGet, 1))
	response, where := d.At("paths", path, asked, "responses", strconv.Itoa(w.Code))
	if response == nil {
		t.Fatalf("%s %s answers %d, which the document does not say: %s", method, path, w.Code, w.Body)
	}
	content, _ := d.At(append(slices.Clone(where), "content")...)
	if w.Body.Len() == 0 && (content == nil || method == http.MethodHead) {
		return
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	_, where = d.At(append(where, "content", media, "schema")...)
	if where == nil {
		t.Fatalf("%s %s: %d of type %s, which the document does not say", method, path, w.Code, media)
	}
	var value any = w.Body.String()
	if strings.HasSuffix(media, "json") {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes())); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Schema(t, where...).Validate(value); err != nil {
		t.Errorf("%s %s: %v\n%s", method, path, err, w.Body)
	}
}

// Sound checks that every schema compiles, every reference leads somewhere, no operation is named
// twice, paths with wildcards say what these are, and every answer is described.
func (d *Document) Sound(t testing.TB) {
	t.Helper()
	if version := d.Root["openapi"].(string); !strings.HasPrefix(version, "3.1.") {
		t.Errorf("OpenAPI %s", version)
	}
	for name := range d.Root["components"].(map[string]any)["schemas"].(map[string]any) {
		d.Schema(t, "components", "schemas", name)
	}
	for path, item := range d.Root["paths"].(map[string]any) {
		if _, ok := item.(map[string]any)["parameters"]; ok != strings.Contains(path, "{") {
			t.Errorf("%s: parameters of the path: %v", path, ok)
		}
	}
	ids := map[string]bool{}
	for name, operation := range d.Operations() {
		id := operation["operationId"].(string)
		if ids[id] {
			t.Errorf("operation %s twice", id)
		}
		ids[id] = true
		method, path, _ := strings.Cut(name, " ")
		for status := range operation["responses"].(map[string]any) {
			response, _ := d.At("paths", path, strings.ToLower(method), "responses", status)
			if response == nil || response.(map[string]any)["description"] == "" {
				t.Errorf("%s: no description of %s", name, status)
			}
		}
	}
	d.everyReference(t, d.Root)
}

func (d *Document) everyReference(t testing.TB, in any) {
	t.Helper()
	switch in := in.(type) {
	case map[string]any:
		if ref, ok := in["$ref"].(string); ok {
			if found, _ := d.At(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); found == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		for _, value := range in {
			d.everyReference(t, value)
		}
	case []any:
		for _, value := range in {
			d.everyReference(t, value)
		}
	}
}
