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
	served := append(api.Routes(), "POST /json") // served by internal/rls and tested there
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved     %q", documented, served)
	}
}

func TestDocumentIsSound(t *testing.T) { theDocument(t).Sound(t) }

// A step of the examples' story is one request, and the example of its response.
type step struct {
	method, path     string
	request, example string // names of examples; a request that is not an example is given literally
}

// The story runs on a server whose clock stands still. {id} is the ID of the last reservation.
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
	{"POST", "/v1/check", `{"attributes":{"ip":"192.0.2.1","path":"/login","method":"POST"}}`, ""},
	{"POST", "/v1/report", "failed", "failed"},
}

// Every example of a request is accepted, and every example of a response is returned.
func TestExamples(t *testing.T) {
	d, h := theDocument(t), newHandler(t, setup{now: at(someday)})
	told, id := map[string]bool{}, ""
	for _, s := range story {
		operation := []string{"paths", s.path, strings.ToLower(s.method)}
		body := s.request
		if request, where := d.At(append(operation, "requestBody", "content", "application/json", "examples", s.request, "value")...); request != nil {
			told[strings.Join(where, " ")] = true
			text, _ := json.Marshal(request)
			body = strings.ReplaceAll(string(text), exampleID, id)
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

// exampleID replaces the IDs of reservations, which differ every time.
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

// examples returns the paths of all examples in the document.
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
