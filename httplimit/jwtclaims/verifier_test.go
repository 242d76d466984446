package jwtclaims

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/penstock-io/penstock/httplimit"
)

// An issuer signs tokens and publishes its keys on a real server.
type issuer struct {
	mu      sync.Mutex
	keys    jwkset.JWKSMarshal
	fetched int
	url     string
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.fetched++
		_ = json.NewEncoder(w).Encode(i.keys)
	}))
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

// publish replaces what is published.
func (i *issuer) publish(t *testing.T, keys map[string]crypto.Signer) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = jwkset.JWKSMarshal{}
	for id, key := range keys {
		jwk, err := jwkset.NewJWKFromKey(key.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id}})
		if err != nil {
			t.Fatal(err)
		}
		i.keys.Keys = append(i.keys.Keys, jwk.Marshal())
	}
}

func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetched
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a token that is valid for an hour unless the claims say otherwise; nil means forever.
func sign(t *testing.T, method jwt.SigningMethod, key any, id string, claims jwt.MapClaims) string {
	t.Helper()
	switch end, there := claims["exp"]; {
	case !there:
		claims["exp"] = time.Now().Add(time.Hour).Unix()
	case end == nil:
		delete(claims, "exp")
	}
	token := jwt.NewWithClaims(method, claims)
	if id != "" {
		token.Header["kid"] = id
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newVerifier(t *testing.T, o Options) *Verifier {
	t.Helper()
	if o.Client == nil {
		o.Client = &http.Client{Transport: roundTrip(unhurried)}
	}
	v, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A roundTrip is how keys are fetched.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// unhurried fetches them in whatever time it takes: that of a verifier may pass on a busy machine.
func unhurried(req *http.Request) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
}

func bearing(token string) *http.Request {
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// subject returns the sub of the request's token, "" if it is not believed.
func subject(t *testing.T, v *Verifier, req *http.Request) string {
	t.Helper()
	found, err := v.Claims(req)
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		return ""
	}
	sub, _ := found.Claim("sub")
	return sub
}

func TestWhichTokensAreBelieved(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, stranger := newKey(t), newKey(t)
	i := newIssuer(t)
	i.publish(t, map[string]crypto.Signer{"ec": key, "rsa": rsaKey, "ed": edKey})
	o := Options{JWKSURL: i.url, Issuer: "https://issuer.example", Audience: "api"}
	lenient := newVerifier(t, o)
	o.Reject = true
	strict := newVerifier(t, o)

	good := func(more ...any) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "u1", "iss": "https://issuer.example", "aud": []string{"other", "api"}}
		for n := 0; n < len(more); n += 2 {
			c[more[n].(string)] = more[n+1]
		}
		return c
	}
	public, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	published := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	valid := sign(t, jwt.SigningMethodES256, key, "ec", good())
	head, rest, _ := strings.Cut(valid, ".")
	for _, test := range []struct {
		name, token string
		believed    bool
	}{
		{"ECDSA", valid, true},
		{"RSA", sign(t, jwt.SigningMethodRS256, rsaKey, "rsa", good()), true},
		{"RSA-PSS", sign(t, jwt.SigningMethodPS256, rsaKey, "rsa", good()), true},
		{"Ed25519", sign(t, jwt.SigningMethodEdDSA, edKey, "ed", good()), true},
		{"which key is not said", sign(t, jwt.SigningMethodES256, key, "", good()), true},
		{"expired", sign(t, jwt.SigningMethodES256, key, "ec", good("exp", time.Now().Add(-time.Minute).Unix())), false},
		{"without an end", sign(t, jwt.SigningMethodES256, key, "ec", good("exp", nil)), false},
		{"not yet", sign(t, jwt.SigningMethodES256, key, "ec", good("nbf", time.Now().Add(time.Hour).Unix())), false},
		{"another issuer", sign(t, jwt.SigningMethodES256, key, "ec", good("iss", "https://evil.example")), false},
		{"another audience", sign(t, jwt.SigningMethodES256, key, "ec", good("aud", "other")), false},
		{"another key", sign(t, jwt.SigningMethodES256, stranger, "ec", good()), false},
		{"another's key id", sign(t, jwt.SigningMethodES256, key, "rsa", good()), false},
		{"unsigned", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "ec", good()), false},
		{"HMAC with the public key", sign(t, jwt.SigningMethodHS256, published, "rsa", good()), false},
		{"HMAC with the public key, no id", sign(t, jwt.SigningMethodHS256, published, "", good()), false},
		{"cut off", valid[:len(valid)-4], false},
		{"another head", strings.Replace(head, "e", "f", 1) + "." + rest, false},
		{"garbage", "a.b.c", false},
		{"too long", strings.Repeat("a", maxToken+1), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := subject(t, lenient, bearing(test.token)); (got == "u1") != test.believed {
				t.Errorf("believed as %q", got)
			}
			if found, err := strict.Claims(bearing(test.token)); (err == nil && found != nil) != test.believed {
				t.Errorf("strictly: %v, %v", found, err)
			}
		})
	}
	if found, err := strict.Claims(httptest.NewRequest("GET", "/", nil)); found != nil || err != nil {
		t.Errorf("without a token: %v, %v", found, err)
	}
}

func TestOnlyTheseAlgorithms(t *testing.T) {
	key := newKey(t)
	i := newIssuer(t)
	i.publish(t, map[string]crypto.Signer{"k": key})
	token := sign(t, jwt.SigningMethodES256, key, "k", jwt.MapClaims{"sub": "u1"})
	for algorithm, want := range map[string]string{"ES256": "u1", "RS256": ""} {
		v := newVerifier(t, Options{JWKSURL: i.url, Algorithms: []string{algorithm}})
		if got := subject(t, v, bearing(token)); got != want {
			t.Errorf("%s: believed as %q", algorithm, got)
		}
	}
}

func TestSecret(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	v := newVerifier(t, Options{Secret: secret})
	if subject(t, v, bearing(sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "u1"}))) != "u1" {
		t.Error("not believed")
	}
	for name, token := range map[string]string{
		"asymmetric":     sign(t, jwt.SigningMethodES256, newKey(t), "", jwt.MapClaims{"sub": "u1"}),
		"another secret": sign(t, jwt.SigningMethodHS256, []byte("another"), "", jwt.MapClaims{"sub": "u1"}),
		"unsigned":       sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", jwt.MapClaims{"sub": "u1"}),
	} {
		if got := subject(t, v, bearing(token)); got != "" {
			t.Errorf("%s: believed as %q", name, got)
		}
	}
}

func TestWhereTokensAre(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	token := sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "u1"})
	for _, test := range []struct {
		name     string
		options  Options
		header   string
		value    string
		believed bool
	}{
		{"bearer", Options{}, "Authorization", "bearer  " + token, true},
		{"no bearer", Options{}, "Authorization", "abc.def.ghi", false},
		{"basic", Options{}, "Authorization", "Basic dTpw", false},
		{"header", Options{Header: "X-Token"}, "X-Token", token, true},
		{"header, as a bearer", Options{Header: "X-Token"}, "X-Token", "Bearer " + token, true},
		{"only that header", Options{Header: "X-Token"}, "Authorization", "Bearer " + token, false},
		{"cookie", Options{Cookie: "token"}, "Cookie", "a=b; token=" + token, true},
		{"only that cookie", Options{Cookie: "token"}, "Authorization", "Bearer " + token, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Secret = secret
			req := httptest.NewRequest("GET", "/", nil)
			req.Header.Set(test.header, test.value)
			if got := subject(t, newVerifier(t, test.options), req); (got == "u1") != test.believed {
				t.Errorf("believed as %q", got)
			}
		})
	}
}

// A request with two tokens is refused, even where invalid tokens are not: the upstream server might
// use the other one.
func TestTwoTokens(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	token := sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "u1"})
	for name, test := range map[string]struct {
		options Options
		header  http.Header
	}{
		"Authorization twice": {Options{}, http.Header{"Authorization": {"Bearer " + token, "Bearer other"}}},
		"header twice":        {Options{Header: "x-token"}, http.Header{"X-Token": {token, token}}},
		"header and alias":    {Options{Header: "X-Token"}, http.Header{"X-Token": {token}, "X_token": {"other"}}},
		"alias":               {Options{Header: "X-Token"}, http.Header{"X.token": {"other"}}},
		"cookie twice":        {Options{Cookie: "token"}, http.Header{"Cookie": {"token=" + token + "; token=other"}}},
		"cookie in two lines": {Options{Cookie: "token"}, http.Header{"Cookie": {"token=" + token, "token=other"}}},
	} {
		test.options.Secret = secret
		req := httptest.NewRequest("GET", "/", nil)
		req.Header = test.header
		found, err := newVerifier(t, test.options).Claims(req)
		if bad, ok := errors.AsType[*httplimit.RequestError](err); !ok || bad.Status != http.StatusBadRequest || found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, test := range []struct {
		options Options
		says    []string
	}{
		{Options{}, []string{"0 of JWKSURL, JWKSFile and Secret"}},
		{Options{JWKSURL: "ftp://x", Secret: []byte("short"), Algorithms: []string{"RS256", "none"}, Header: "a", Cookie: "b", Leeway: -1, Refresh: -1},
			[]string{"2 of", "http or https", "5 bytes", `"RS256"`, `"none"`, "one place", "leeway", "every -1ns"}},
		{Options{JWKSURL: "https://x", Algorithms: []string{"HS256"}}, []string{`"HS256" with such keys`}},
	} {
		_, err := New(t.Context(), test.options)
		for _, says := range test.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v does not say %s", err, says)
			}
		}
	}
}
