package urlform

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:3000":                     "http://127.0.0.1:3000",
		"https://issuer.example/.well-known/jwks":   "https://issuer.example/.well-known/jwks",
		"127.0.0.1:6379":                            "127.0.0.1:6379",
		"[::1]:6379":                                "[::1]:6379",
		"redis":                                     "redis",
		"https://u:SECRET@issuer.example/k":         "https://…@issuer.example/k",
		"https://SECRET@issuer.example":             "https://…@issuer.example",
		"https://issuer.example/k?token=SECRET&x=y": "https://issuer.example/k?…",
		"https://issuer.example/k#SECRET":           "https://issuer.example/k#…",
		"https://u:SECRET@h/k?token=SECRET":         "https://…@h/k?…",
		"redis://:SECRET@h:6379/0":                  "redis://…@h:6379/0",
		"u:SECRET@h:6379":                           "…@h:6379",
		"SECRET@h:6379":                             "…@h:6379",
		"":                                          "…",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWellFormed(t *testing.T) {
	for text, want := range map[string]bool{
		"postgres://u:p@h:5432/db?sslmode=disable&a=b": true, "postgres://u@h/db": true, "http://h": true, "http://u:a%40b@h": true,
		"http://u:p@q@h": false, "http://u:p/q@h": false, "http://u:1/q@h": false, "http://u:p?q@h": false, "http://h?p": false, "http://h:99999": false, "http://u:p": false, "http://h?a=b@c": false,
	} {
		if got := WellFormed(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Malformed URLs are in testdata/malformed.txt, which tests of the program use too.
func TestRedactMalformed(t *testing.T) {
	lines, err := os.ReadFile("testdata/malformed.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			continue // a comment
		}
		if got := Redact(text); strings.Contains(got, "SECRET") {
			t.Errorf("%q: %q", text, got)
		}
	}
}
