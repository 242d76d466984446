package problem

import (
	"net/http/httptest"
	"testing"
)

func TestParse(t *testing.T) {
	p, err := Parse([]byte(`{"title":"Bad Request","status":400,"errors":[{"at":"cost","message":"is missing"}]}`))
	if err != nil || len(p.Errors) != 1 || p.Errors[0].String() != "cost: is missing" {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, body := range []string{`<html>`, `{}`} {
		if _, err := Parse([]byte(body)); err == nil {
			t.Errorf("%s is a problem", body)
		}
	}
}

// A struct that embeds a document is written as a whole, with the headers of the document.
func TestWrite(t *testing.T) {
	type refusal struct {
		Document
		Current int `json:"current"`
	}
	p := &refusal{*New(409, "version 3 is \"current\""), 3}
	p.Code, p.RetryAfter = "conflict", 7
	for range 2 { // header values are shared: the first response must not change the second
		w := httptest.NewRecorder()
		Write(w, 403, p)
		const want = `{"title":"Conflict","status":409,"code":"conflict","detail":"version 3 is \"current\"","current":3}`
		if w.Code != 403 || w.Body.String() != want {
			t.Errorf("got %d %s, want 403 %s", w.Code, w.Body, want)
		}
		for name, want := range map[string]string{
			"Content-Type": MediaType, "Retry-After": "7",
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
			w.Header().Add(name, "changed")
		}
	}
}
