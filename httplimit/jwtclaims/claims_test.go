package jwtclaims

import (
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func TestClaims(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	token := sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{
		"sub": "u1", "n": 9007199254740993, "f": 1.5, "yes": true, "list": []string{"a"}, "nothing": nil, "": "unnamed",
		"org":                        map[string]any{"id": 7, "deep": map[string]any{"er": "x"}, "a.b": "dotted"},
		"https://example.com/tenant": "t1", "org.plan": "gold",
	})
	found, err := newVerifier(t, Options{Secret: secret}).Claims(bearing(token))
	if err != nil || found == nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"sub": "u1", "n": "9007199254740993", "f": "1.5", "yes": "true", "org.id": "7", "org.deep.er": "x", "org.a.b": "dotted",
		"https://example.com/tenant": "t1", "org.plan": "gold", "": "unnamed",
	} {
		if got, ok := found.Claim(name); !ok || got != want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"list", "nothing", "org", "none", "org.none", "sub.x", ".", "org."} {
		if got, ok := found.Claim(name); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
}
