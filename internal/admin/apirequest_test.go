package admin_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
)

// Bodies are read strictly, and all errors are reported.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for body, mentions := range map[string][]string{
		`{"rule": 1, "attributes": {"user": 2}, "colour": "red", "rule": "x"}`: {
			`{"at":"rule","message":"must be a string, is a number"}`, `{"at":"attributes","message":"must be an object of strings, is a number"}`,
			`{"at":"colour","message":"unknown field; known fields: attributes, domain, rule"}`, `{"at":"rule","message":"is there twice"}`,
		},
		`[]`:                    {"must be a JSON object"},
		`null`:                  {"must be a JSON object"},
		`{"rule": "x"} {}`:      {"something follows it"},
		`{"rule": "x"`:          {"must be a JSON object"},
		`{"rule": "x",}`:        {"must be a JSON object"},
		`{"rule": tru}`:         {"must be a JSON object"},
		"{\"rule\": \"\xff\"}":  {"UTF-8"},
		`{"attributes": [1]}`:   {"must be an object of strings, is a array"},
		`{"attributes": "u1"}`:  {"must be an object of strings, is a string"},
		strings.Repeat("[", 20): {"must be a JSON object"},
	} {
		s.refused("POST", "/v1/keys/show", body, 400, admin.Invalid, mentions...)
	}
	s.refused("POST", "/v1/keys/show", `{"rule": "`+strings.Repeat("x", 256<<10)+`"}`, 413, admin.Invalid)
	for name, value := range map[string]string{"Content-Type": "text/plain", "Content-Encoding": "gzip"} {
		r := s.request("POST", "/v1/keys/show", "{}", "Authorization", "Bearer "+operatorToken, name, value)
		if w := s.serve(r); w.Code != 415 {
			t.Errorf("%s %s: %d", name, value, w.Code)
		}
	}
}

// For any body, the response is valid, and the API keeps working.
func FuzzBodies(f *testing.F) {
	f.Add("/v1/keys/show", []byte(`{"attributes": {"user": "u1"}}`))
	f.Add("/v1/bans", []byte(`{"attributes": {"user": "u1"}, "duration": "1h"}`))
	f.Add("/v1/rules/per-user/overrides", []byte(`{"match": {"user": "u1"}, "limit": "1/1m"}`))
	f.Add("/v1/rules/validate", []byte(`{"document": "rules: []"}`))
	f.Add("/v1/rules/diff", []byte(`{"from": -1, "document": "rules: ["}`))
	f.Add("/v1/explain", []byte(`{"attributes": {"path": "//"}, "at": "2026-01-01T00:00:00Z"}`))
	f.Add("/v1/session", []byte(`{"token": ""}`))
	s := newTestAdmin(f, setup{})
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if !strings.HasPrefix(path, "/v1/") || strings.ContainsAny(path, " \t\r\n#?%\x00") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		stand := *s
		stand.t = t
		w := stand.ask("POST", path, string(body))
		if w.Code >= 500 || w.Code < 200 {
			t.Errorf("%s %q: %d %s", path, body, w.Code, w.Body)
		}
		if w.Body.Len() > 0 && !json.Valid(bytes.TrimSpace(w.Body.Bytes())) && w.Header().Get("Location") == "" {
			t.Errorf("%s %q: %s", path, body, w.Body)
		}
	})
}
