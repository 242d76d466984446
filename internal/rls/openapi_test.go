package rls_test

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock-io/penstock/docs"
)

const exampleRules = `
rules:
  - {name: per-user, match: {domain: mesh}, key: [user], limits: [{rate: 100/1m, algorithm: fixed_window}]}
  - {name: per-path, match: {domain: mesh}, key: [path], limits: [{rate: 3/1h, algorithm: fixed_window}]}
`

// What the document says of /json is so: its examples are what is answered, and every answer is one
// that it announces.
func TestDocumented(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(docs.OpenAPI))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	operation := at(t, document, "paths", "/json", "post")
	example := encode(t, at(t, operation, "requestBody", "content", "application/json", "examples", "two", "value"))
	s := newServer(t, byRules(t, newMemory(t), exampleRules), noRules)
	broken := newServer(t, byRules(t, broken{}, exampleRules), noRules)
	for _, step := range []struct {
		serve   http.HandlerFunc
		body    string
		status  int
		example string
	}{
		{s.JSON, example, http.StatusOK, "allowed"},
		{s.JSON, example, http.StatusTooManyRequests, "denied"},
		{s.JSON, strings.ReplaceAll(example, "mesh", "elsewhere"), http.StatusOK, ""},
		{s.JSON, "{}", http.StatusBadRequest, ""},
		{s.JSON, strings.Repeat(" ", 2<<20), http.StatusRequestEntityTooLarge, ""},
		{broken.JSON, example, http.StatusOK, ""},
		{broken.JSON, `{"domain":"mesh","descriptors":[{"entries":[{"key":"a"}],"limit":{"unit":"DAY"}}]}`, http.StatusServiceUnavailable, ""},
	} {
		w := httptest.NewRecorder()
		step.serve(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(step.body)))
		if w.Code != step.status {
			t.Fatalf("%.100s: %d %s, want %d", step.body, w.Code, w.Body, step.status)
		}
		media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		where := []string{"paths", "/json", "post", "responses", strconv.Itoa(w.Code), "content", media}
		at(t, document, where...)
		pointer := "openapi.json#"
		for _, name := range append(where, "schema") {
			pointer += "/" + strings.ReplaceAll(name, "/", "~1")
		}
		var got any = w.Body.String()
		if media == "application/json" {
			if got, err = jsonschema.UnmarshalJSON(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		schema, err := compiler.Compile(pointer)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(got); err != nil {
			t.Errorf("%.100s: %v", step.body, err)
		}
		if step.example == "" {
			continue
		}
		if want := at(t, document, append(where, "examples", step.example, "value")...); !reflect.DeepEqual(got, want) {
			t.Errorf("unlike the example %s it answers\n%s", step.example, encode(t, got))
		}
	}
}

func at(t *testing.T, in any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, _ := in.(map[string]any)
		if in = object[name]; in == nil {
			t.Fatalf("the document has no %q of %q", name, path)
		}
	}
	return in
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
