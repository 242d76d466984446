package jwtclaims

import (
	"crypto"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func TestRotatedKeys(t *testing.T) {
	old, current := newKey(t), newKey(t)
	i := newIssuer(t)
	i.publish(t, map[string]crypto.Signer{"old": old})
	v := newVerifier(t, Options{JWKSURL: i.url})
	byOld := sign(t, jwt.SigningMethodES256, old, "old", jwt.MapClaims{"sub": "u1"})
	byNew := sign(t, jwt.SigningMethodES256, current, "new", jwt.MapClaims{"sub": "u2"})
	if subject(t, v, bearing(byOld)) != "u1" {
		t.Error("the first key is not believed")
	}
	i.publish(t, map[string]crypto.Signer{"new": current})
	if subject(t, v, bearing(byNew)) != "u2" {
		t.Error("the next key is not believed")
	}
	if subject(t, v, bearing(byOld)) != "" {
		t.Error("a key that is published no more is believed")
	}
	// Tokens with keys that nobody knows do not make us ask again and again.
	before := i.fetches()
	for range 20 {
		subject(t, v, bearing(sign(t, jwt.SigningMethodES256, old, "unknown", jwt.MapClaims{"sub": "u3"})))
	}
	if more := i.fetches() - before; more > 1 {
		t.Errorf("fetched %d times", more)
	}
}

// An issuer that is away at the start is asked again when a token comes.
func TestKeysFetchedLater(t *testing.T) {
	key := newKey(t)
	i := newIssuer(t)
	var mu sync.Mutex
	var told error
	away := true
	client := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return nil, os.ErrDeadlineExceeded
		}
		return unhurried(req)
	})}
	i.publish(t, map[string]crypto.Signer{"k": key})
	v := newVerifier(t, Options{JWKSURL: i.url, Client: client, OnError: func(err error) { told = err }})
	if told == nil {
		t.Error("nobody was told")
	}
	mu.Lock()
	away = false
	mu.Unlock()
	if subject(t, v, bearing(sign(t, jwt.SigningMethodES256, key, "k", jwt.MapClaims{"sub": "u1"}))) != "u1" {
		t.Error("not believed")
	}
}

func TestKeysFromAFile(t *testing.T) {
	key := newKey(t)
	i := newIssuer(t)
	i.publish(t, map[string]crypto.Signer{"k": key})
	text, err := json.Marshal(i.keys)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	v := newVerifier(t, Options{JWKSFile: name})
	if subject(t, v, bearing(sign(t, jwt.SigningMethodES256, key, "k", jwt.MapClaims{"sub": "u1"}))) != "u1" {
		t.Error("not believed")
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{name, name + ".none"} {
		if _, err := New(t.Context(), Options{JWKSFile: bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
