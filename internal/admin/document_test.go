package admin_test

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

	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/internal/admin"
)

// A document is docs/admin-openapi.json, to look things up in.
type document struct {
	root     map[string]any
	compiler *jsonschema.Compiler
}

var openAPI = sync.OnceValues(func() (*document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.AdminOpenAPI))
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

var templates = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range admin.Routes() {
		mux.HandleFunc(route.Method+" "+route.Path, func(http.ResponseWriter, *http.Request) {})
	}
	return mux
})

// template is a path as the document names it; "" if it does not.
func template(r *http.Request) string {
	_, pattern := templates().Handler(r)
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// conforms checks that an answer is one that the document announces.
func conforms(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	path := template(r)
	if path == "" {
		return // not asked by the document
	}
	d := theDocument(t)
	method := strings.ToLower(strings.Replace(r.Method, "HEAD", "GET", 1))
	response, where := d.at("paths", path, method, "responses", strconv.Itoa(w.Code))
	if response == nil && w.Code == http.StatusForbidden && (r.Host != "localhost" || r.Header.Get("Sec-Fetch-Site") != "") {
		return // whatever is asked for
	}
	if response == nil {
		t.Fatalf("%s %s answers %d, which the document does not say: %s", r.Method, r.URL.Path, w.Code, w.Body)
	}
	content, _ := d.at(append(slices.Clone(where), "content")...)
	if w.Body.Len() == 0 && (content == nil || r.Method == http.MethodHead) {
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

func TestDocumentHasEveryRoute(t *testing.T) {
	d := theDocument(t)
	var documented, served []string
	for path, item := range d.root["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			if method != "parameters" {
				role := operation.(map[string]any)["x-role"].(string)
				documented = append(documented, strings.ToUpper(method)+" "+path+" "+role)
			}
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

func TestDocumentIsSound(t *testing.T) {
	d := theDocument(t)
	if version := d.root["openapi"].(string); !strings.HasPrefix(version, "3.1.") {
		t.Errorf("OpenAPI %s", version)
	}
	for name := range d.root["components"].(map[string]any)["schemas"].(map[string]any) {
		d.schema(t, "components", "schemas", name)
	}
	ids := map[string]bool{}
	for path, item := range d.root["paths"].(map[string]any) {
		item := item.(map[string]any)
		if _, ok := item["parameters"]; ok != strings.Contains(path, "{") {
			t.Errorf("%s: parameters of the path: %v", path, ok)
		}
		for method, operation := range item {
			if method == "parameters" {
				continue
			}
			operation := operation.(map[string]any)
			if id := operation["operationId"].(string); ids[id] {
				t.Errorf("operation %s twice", id)
			} else {
				ids[id] = true
			}
			if open := len(operation["security"].([]any)) == 0; open != (operation["x-role"] == "anybody") {
				t.Errorf("%s %s: security and role differ", method, path)
			}
		}
	}
	d.everyReference(t, d.root)
}

func (d *document) everyReference(t *testing.T, in any) {
	switch in := in.(type) {
	case map[string]any:
		if ref, ok := in["$ref"].(string); ok {
			if found, _ := d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...); found == nil {
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

func TestDocumentIsServed(t *testing.T) {
	s := newStand(t, setup{})
	w := s.serve(s.request("GET", "/openapi.json", ""))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), docs.AdminOpenAPI) {
		t.Errorf("%d %.200s", w.Code, w.Body)
	}
}
