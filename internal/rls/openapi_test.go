package rls_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/penstock-io/penstock/docs"
	"github.com/penstock-io/penstock/internal/openapitest"
)

const exampleRules = `
rules:
  - {name: per-user, match: {domain: mesh}, key: [user], limits: [{rate: 100/1m, algorithm: fixed_window}]}
  - {name: per-path, match: {domain: mesh}, key: [path], limits: [{rate: 3/1h, algorithm: fixed_window}]}
`

// The document is right about /json: its examples are returned, and it describes every response.
func TestDocumented(t *testing.T) {
	document, err := openapitest.Read(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	request, _ := document.At("paths", "/json", "post", "requestBody", "content", "application/json", "examples", "two", "value")
	example := encode(t, request)
	s := newServer(t, byRules(t, newMemory(t), exampleRules), noRules)
	broken := newServer(t, byRules(t, unavailableStore{}, exampleRules), noRules)
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
		step.serve(w, jsonRequest(strings.NewReader(step.body)))
		if w.Code != step.status {
			t.Fatalf("%.100s: %d %s, want %d", step.body, w.Code, w.Body, step.status)
		}
		document.Conforms(t, http.MethodPost, "/json", w)
		if step.example == "" {
			continue
		}
		got, err := jsonschema.UnmarshalJSON(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		where := []string{"paths", "/json", "post", "responses", strconv.Itoa(w.Code), "content", "application/json", "examples", step.example, "value"}
		if want, _ := document.At(where...); !reflect.DeepEqual(got, want) {
			t.Errorf("unlike the example %s it answers\n%s", step.example, encode(t, got))
		}
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
