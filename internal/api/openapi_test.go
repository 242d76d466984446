package api_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/api"
)

func TestDocumentHasEveryRoute(t *testing.T) {
	d := theDocument(t)
	documented := slices.Collect(maps.Keys(d.Operations()))
	served := append(api.Routes(), "POST /json") // which is internal/rls's, proved there
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved     %q", documented, served)
	}
}

func TestDocumentIsSound(t *testing.T) { theDocument(t).Sound(t) }

// A step of the examples' story: one request, and the example that it is answered with.
type step struct {
	method, path     string
	request, example string // names of examples; a request that is no example is given as it is
}

// The story is told to a server whose clock stands still. {id} is what the last reservation was
// called.
var story = []step{
	{"POST", "/v1/check", "search", "allowed"},
	{"POST", "/v1/check", `{"attributes":{"user":"u1","path":"/search","method":"GET"},"cost":99}`, ""},
	{"POST", "/v1/check", "search", "denied"},
	{"POST", "/v1/check/batch", "two", "two"},
	{"POST", "/v1/reserve", "tokens", "tokens"},
	{"POST", "/v1/reservations/{id}/renew", "minute", "minute"},
	{"POST", "/v1/reservations/{id}/settle", "tokens", "tokens"},
	{"POST", "/v1/reserve", "tokens", ""},
	{"DELETE", "/v1/reservations/{id}", "", "released"},
}

// Every example of a request is accepted, and every example of an answer is what is answered.
func TestExamples(t *testing.T) {
	d, h := theDocument(t), newHandler(t, setup{now: at(someday)})
	told, id := map[string]bool{}, ""
	for _, s := range story {
		operation := []string{"paths", s.path, strings.ToLower(s.method)}
		body := s.request
		if request, where := d.At(append(operation, "requestBody", "content", "application/json", "examples", s.request, "value")...); request != nil {
			told[strings.Join(where, " ")] = true
			text, _ := json.Marshal(request)
			body = string(text)
		}
		w := ask(t, h, s.method, strings.ReplaceAll(s.path, "{id}", id), body)
		if w.Code != 200 {
			t.Fatalf("%s %s %s: %d %s", s.method, s.path, body, w.Code, w.Body)
		}
		id = reserved(t, w.Body.Bytes(), id)
		if s.example == "" {
			continue
		}
		got := w.Body.String()
		if id != "" {
			got = strings.ReplaceAll(got, id, exampleID)
		}
		where := append(operation, "responses", "200", "content", "application/json", "examples", s.example, "value")
		told[strings.Join(where, " ")] = true
		want, _ := d.At(where...)
		if !sameJSON(t, got, want) {
			t.Errorf("%s %s answers, unlike the example %s,\n%s", s.method, s.path, s.example, got)
		}
	}
	for _, where := range examples(nil, d.Root) {
		if !told[where] && !strings.HasPrefix(where, "paths /json ") {
			t.Errorf("nothing proves the example %s", where)
		}
	}
}

// exampleID stands for reservations, which are called differently every time.
const exampleID = "AQAAAAAAAAAB"

func reserved(t *testing.T, body []byte, before string) string {
	var v struct{ Reservation string }
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	if v.Reservation == "" {
		return before
	}
	return v.Reservation
}

func sameJSON(t *testing.T, got string, want any) bool {
	var a, b any
	text, err := json.Marshal(want)
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil {
		err = json.Unmarshal([]byte(got), &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

// examples are where the document has any.
func examples(path []string, in any) (all []string) {
	object, ok := in.(map[string]any)
	if !ok {
		return nil
	}
	for name, value := range object {
		here := append(slices.Clone(path), name)
		if len(path) > 0 && path[len(path)-1] == "examples" {
			all = append(all, strings.Join(append(here, "value"), " "))
			continue
		}
		all = append(all, examples(here, value)...)
	}
	return all
}
