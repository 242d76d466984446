//go:build linux

package survive

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const tokenRules = `
attributes: {user: {claim: sub}}
rules:
  - {name: per-user, key: [user], ` + counted + `}
  - {name: all, key: [], ` + counted + `}
`

// An issuer signs tokens. Attackers know its public keys and have a token of their own.
type issuer struct {
	t  *testing.T
	rs *rsa.PrivateKey
	es *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t, rs, es}
}

// writeKeys writes the public keys as a JSON web key set.
func (i *issuer) writeKeys(file string) {
	i.t.Helper()
	e := big.NewInt(int64(i.rs.E)).Bytes()
	point, err := i.es.PublicKey.Bytes()
	if err != nil {
		i.t.Fatal(err)
	}
	set := map[string]any{"keys": []map[string]string{
		{"kty": "RSA", "kid": "rs", "use": "sig", "alg": "RS256", "n": encode(i.rs.N.Bytes()), "e": encode(e)},
		{"kty": "EC", "kid": "es", "use": "sig", "alg": "ES256", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])},
	}}
	text, err := json.Marshal(set)
	if err != nil {
		i.t.Fatal(err)
	}
	write(i.t, file, string(text))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// claims are those of a good token, with some replaced.
func claims(user string, more ...any) jwt.MapClaims {
	c := jwt.MapClaims{"sub": user, "iss": "https://issuer.example", "aud": "penstock", "exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i < len(more); i += 2 {
		if c[more[i].(string)] = more[i+1]; more[i+1] == nil {
			delete(c, more[i].(string))
		}
	}
	return c
}

// sign returns a token with a good signature.
func (i *issuer) sign(c jwt.MapClaims, header ...any) string {
	i.t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	token.Header["kid"] = "rs"
	for k := 0; k < len(header); k += 2 {
		token.Header[header[k].(string)] = header[k+1]
	}
	text, err := token.SignedString(i.rs)
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// raw returns a token of any header and payload, with a signature made by sign.
func raw(header, payload string, sign func(text string) []byte) string {
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	return text + "." + encode(sign(text))
}

func withHMAC(key []byte) func(string) []byte {
	return func(text string) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
}

func withBytes(b []byte) func(string) []byte { return func(string) []byte { return b } }

// forgedTokens say that the client is the victim. Each is made without the issuer's private keys, or is
// a good token that must not be accepted here.
func (i *issuer) forgedTokens() (tokens []string) {
	victim, err := json.Marshal(claims("victim"))
	if err != nil {
		i.t.Fatal(err)
	}
	payload := string(victim)
	add := func(header string, sign func(string) []byte) { tokens = append(tokens, raw(header, payload, sign)) }

	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", " none", "none ", "null"} {
		for _, kid := range []string{"", `,"kid":"rs"`, `,"kid":"es"`} {
			add(fmt.Sprintf(`{"alg":%q,"typ":"JWT"%s}`, alg, kid), withBytes(nil))
			add(fmt.Sprintf(`{"alg":%q%s}`, alg, kid), withBytes([]byte("x")))
		}
	}
	for _, header := range []string{`{}`, `{"alg":null}`, `{"alg":1}`, `{"alg":["RS256"]}`, `{"alg":{"a":"RS256"}}`, `{"typ":"JWT"}`, `[]`, `null`, `"RS256"`, ``, `{"alg":"RS256"`, `{"alg":"RS256","alg":"none","kid":"rs"}`, `{"alg":"none","alg":"RS256","kid":"rs"}`, "\xef\xbb\xbf" + `{"alg":"none"}`} {
		add(header, withBytes(nil))
	}

	// The public keys as the secret of an HMAC, in every form in which they are published.
	spki, err := x509.MarshalPKIXPublicKey(&i.rs.PublicKey)
	if err != nil {
		i.t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PublicKey(&i.rs.PublicKey)
	for _, key := range [][]byte{
		nil, []byte(""), spki, pkcs1, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}), pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
		i.rs.N.Bytes(), []byte(encode(i.rs.N.Bytes())), []byte("secret"), make([]byte, 32),
	} {
		for _, alg := range []string{"HS256", "HS384", "HS512", "RS256", "ES256", "EdDSA"} {
			add(fmt.Sprintf(`{"alg":%q,"kid":"rs"}`, alg), withHMAC(key))
		}
	}

	// Keys that the token brings along, and names of keys that are something else.
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	withOwn := func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, own, crypto.SHA256, sum[:])
		if err != nil {
			i.t.Fatal(err)
		}
		return signature
	}
	jwk := fmt.Sprintf(`{"kty":"RSA","kid":"own","n":%q,"e":"AQAB"}`, encode(own.N.Bytes()))
	for _, more := range []string{
		`"kid":"rs"`, `"kid":"own"`, `"jwk":` + jwk, `"kid":"own","jwk":` + jwk, `"kid":"rs","jwk":` + jwk, `"jku":"http://127.0.0.1:1/keys"`, `"x5u":"http://127.0.0.1:1/c"`, `"x5c":["AA=="]`, `"kid":"rs","jku":"http://127.0.0.1:1/keys"`,
		`"kid":"../../../dev/null"`, `"kid":"/dev/null"`, `"kid":"' OR 1=1 --"`, `"kid":""`, `"kid":null`, `"kid":0`, `"kid":["rs"]`, `"kid":{"rs":1}`, `"kid":"rs\u0000"`, `"kid":"RS"`, `"kid":"rs","crit":["exp"]`, `"kid":"rs","b64":false,"crit":["b64"]`, `"kid":"rs","zip":"DEF"`, `"kid":"` + strings.Repeat("x", 4000) + `"`,
	} {
		for _, alg := range []string{"RS256", "PS256", "RS512"} {
			add(fmt.Sprintf(`{"alg":%q,%s}`, alg, more), withOwn)
		}
	}

	// Signatures of nothing.
	for _, size := range []int{0, 1, 32, 64, 70, 96, 132, 255, 256, 257, 512, 4000} {
		for _, fill := range []byte{0, 0xff} {
			b := make([]byte, size)
			for k := range b {
				b[k] = fill
			}
			add(`{"alg":"RS256","kid":"rs"}`, withBytes(b))
			add(`{"alg":"ES256","kid":"es"}`, withBytes(b))
			add(`{"alg":"ES256","kid":"rs"}`, withBytes(b))
			add(`{"alg":"RS256","kid":"es"}`, withBytes(b))
		}
	}
	return append(tokens, i.editedTokens(payload)...)
}

// editedTokens are good tokens of an attacker that were changed, and good ones of the victim that do
// not hold, or no longer.
func (i *issuer) editedTokens(payload string) (tokens []string) {
	attacker := strings.Split(i.sign(claims("attacker")), ".")
	victim := encode([]byte(payload))
	header, signature := attacker[0], attacker[2]
	tokens = append(tokens,
		header+"."+victim+"."+signature, header+"."+victim+".", header+"."+victim, header+"."+victim+"."+signature+"."+signature, header+"."+victim+"."+attacker[1]+"."+signature, header+".."+signature, "."+victim+"."+signature, "..", ".", "....",
		header+"."+victim+"."+signature+"=", header+"."+victim+"=."+signature, header+"."+attacker[1]+victim+"."+signature, header+"."+victim+attacker[1]+"."+signature, victim+"."+header+"."+signature, header+"."+victim+"."+header, header+"\t."+victim+"."+signature,
	)
	now := time.Now()
	for _, c := range []jwt.MapClaims{
		claims("victim", "exp", now.Add(-time.Hour).Unix()), claims("victim", "exp", nil), claims("victim", "exp", 0), claims("victim", "exp", -1), claims("victim", "exp", "soon"), claims("victim", "exp", []int64{now.Add(time.Hour).Unix()}), claims("victim", "exp", true), claims("victim", "exp", json.Number("1e400")),
		claims("victim", "nbf", now.Add(time.Hour).Unix()), claims("victim", "nbf", "later"),
		claims("victim", "iss", "https://other.example"), claims("victim", "iss", "https://issuer.example/"), claims("victim", "iss", nil), claims("victim", "iss", []string{"https://issuer.example"}), claims("victim", "iss", "HTTPS://ISSUER.EXAMPLE"),
		claims("victim", "aud", "other"), claims("victim", "aud", nil), claims("victim", "aud", []string{"other"}), claims("victim", "aud", []string{}), claims("victim", "aud", 1), claims("victim", "aud", "penstock "),
	} {
		tokens = append(tokens, i.sign(c))
	}
	random := mathrand.New(mathrand.NewPCG(4, 9))
	good := i.sign(claims("victim"))
	for range 50 * longer { // the issuer's token for the victim, a little of it changed
		b := []byte(good)
		k := random.IntN(len(b) - 1) // except the last character, which has unused bits
		if b[k] == '.' {
			continue
		}
		b[k] = "AZaz09-_"[random.IntN(8)]
		if string(b) != good {
			tokens = append(tokens, string(b))
		}
	}
	return tokens
}

// A forged token does not impersonate another client: every one is refused, none is counted, and
// tokens of the issuer still work.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	keys := filepath.Join(t.TempDir(), "keys.json")
	i.writeKeys(keys)
	w := newGoWitness(t)
	tokens := i.forgedTokens()
	if len(tokens) < 250 {
		t.Errorf("only %d tokens", len(tokens))
	}
	for _, rejects := range []bool{true, false} {
		t.Run(fmt.Sprint("reject ", rejects), func(t *testing.T) {
			n := start(t, setup{rules: tokenRules, config: fmt.Sprintf("jwt: {jwks_file: %q, issuer: \"https://issuer.example\", audience: penstock, reject: %t}\nupstreams: [{url: %q}]\n", keys, rejects, w.url)})
			var texts []string
			for _, token := range tokens {
				texts = append(texts, withToken("Bearer "+token))
			}
			ask(t, n.addresses["gateway"], texts, func(text string, r reply) {
				if rejects && r.status != http.StatusUnauthorized && r.status != http.StatusBadRequest {
					t.Errorf("%.200q: status %d", text, r.status)
				}
				if !rejects && r.status != http.StatusOK && r.status != http.StatusBadRequest {
					t.Errorf("%.200q, taken as none: status %d", text, r.status)
				}
			})
			for user, want := range map[string]int{"victim": 0, "attacker": 0, "": 0} {
				if used := n.used("per-user", map[string]string{"user": user}); used != want {
					t.Errorf("%d requests were counted as those of %q, want %d", used, user, want)
				}
			}
			if used := n.used("all", map[string]string{}); rejects && used != 0 {
				t.Errorf("%d refused requests were counted", used)
			}
			const good = 5
			for range good {
				for _, spelling := range []string{"Bearer ", "bearer ", "BEARER "} {
					ask(t, n.addresses["gateway"], []string{withToken(spelling + i.sign(claims("victim")))}, func(text string, r reply) {
						if r.status != http.StatusOK {
							t.Errorf("%.200q: status %d", text, r.status)
						}
					})
				}
			}
			if used := n.used("per-user", map[string]string{"user": "victim"}); used != 3*good {
				t.Errorf("counted %d of %d requests with good tokens", used, 3*good)
			}
			n.isWell(maxMiB)
		})
	}
}

func withToken(authorization string) string {
	return "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: " + authorization + "\r\n\r\n"
}
