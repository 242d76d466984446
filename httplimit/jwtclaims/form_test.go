package jwtclaims

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/penstock-io/penstock/httplimit"
)

// A valid token in a form that only some servers accept never counts as no token: its claims are read, or the request
// is refused, also where invalid tokens are not.
func TestFormsOfTokens(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	token := sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "u1"})
	head, rest, _ := strings.Cut(token, ".")
	signature := token[strings.LastIndexByte(token, '.')+1:]
	header, own, cookie := Options{}, Options{Header: "X-Token"}, Options{Cookie: "token"}
	for _, test := range []struct {
		options Options
		value   string // of the header or cookie; $ is the token
		want    string // the claim, "none" or "refused"
	}{
		{header, "Bearer $", "u1"}, {header, "bearer $", "u1"}, {header, "BEARER   $", "u1"}, {header, "Bearer $  ", "u1"},
		{own, "$", "u1"}, {own, "Bearer $", "u1"}, {own, " $\t", "u1"},
		{cookie, "$", "u1"}, {cookie, " $ ", "u1"}, {cookie, "\"$\"", "u1"}, {cookie, "%65" + token[1:], "u1"}, {cookie, strings.ReplaceAll(token, ".", "%2e"), "u1"},

		{header, "Bearer\t$", "refused"}, {header, "Bearer \t$", "refused"}, {header, "Bearer\u00a0$", "refused"}, {header, "Bearer\xa0$", "refused"}, {header, "Bearer\x85$", "refused"},
		{header, "Bearer $ x", "refused"}, {header, "Bearer x $", "refused"}, {header, "Bearer $,", "refused"}, {header, "Bearer $=", "refused"}, {header, "Bearer $==", "refused"},
		{header, "Bearer \"$\"", "refused"}, {header, "Bearer <$>", "refused"}, {header, "Bearer:$", "refused"}, {header, "Bearer: $", "refused"}, {header, "Bearer=$", "refused"},
		{header, "BearerX$", "refused"}, {header, "Bearer-$", "refused"}, {header, "Bearer$", "refused"}, {header, "Bearer Bearer $", "refused"}, {header, "Bearer, $", "refused"},
		{header, "Basic $", "refused"}, {header, "JWT $", "refused"}, {header, "Token $", "refused"}, {header, "$", "refused"}, {header, "Basic dTpw, Bearer $", "refused"},
		{header, "Bearer token=$", "refused"}, {header, "Bearer token=\"$\"", "refused"},
		{header, "Bearer " + head + "." + rest[:len(rest)-len(signature)] + "!" + signature, "refused"}, // base64 decoders that ignore it
		{header, "Bearer " + token[:len(token)-2] + " " + token[len(token)-2:], "refused"},
		{header, "Bearer " + token[:len(token)-2] + "\t" + token[len(token)-2:], "refused"},
		{own, "JWT $", "refused"}, {own, "$=", "refused"}, {own, "Bearer\t$", "refused"}, {own, "$, $", "refused"},
		{cookie, "$=", "refused"}, {cookie, "$%3D", "refused"}, {cookie, "Bearer%20$", "refused"}, {cookie, "Bearer $", "refused"}, {cookie, "s%3A$.abc", "refused"}, {cookie, "$%00", "refused"},
		{cookie, "%20$", "refused"}, {cookie, "%22$%22", "refused"}, {cookie, "$,x=1", "refused"},

		// None of these holds a token.
		{header, "", "none"}, {header, "Bearer", "none"}, {header, "Bearer ", "none"}, {header, "Basic dTpw", "none"}, {header, "Bearer 2YotnFZFEjr1zCsicMWpAA", "none"},
		{header, `Digest username="a.b.c", realm="key.example.com", uri="/eyes.of.x"`, "none"}, {header, "Bearer eyJhbGciOiJIUzI1NiJ9", "none"}, {header, "Bearer v4.public.eyJzdWIiOiJ1MSJ9.abc", "none"},
		{header, "AWS4-HMAC-SHA256 Credential=AKIA/20260101/eu/s3/aws4_request, Signature=fe5f80f77d5fa3", "none"},
		{header, "Bearer " + head + "." + rest[:5] + ".", "none"}, {header, "Bearer a.b.c.d.e", "none"}, {cookie, "", "none"}, {cookie, "a.b.c", "none"}, {cookie, "s%3Aabc.def", "none"},
	} {
		test.options.Secret = secret
		req := httptest.NewRequest("GET", "/", nil)
		value := strings.ReplaceAll(test.value, "$", token)
		switch {
		case test.options.Cookie != "":
			req.Header.Set("Cookie", "a=b; token="+value+"; c=d")
		case test.options.Header != "":
			req.Header.Set("X-Token", value)
		default:
			req.Header.Set("Authorization", value)
		}
		for _, test.options.Reject = range []bool{false, true} {
			found, err := newVerifier(t, test.options).Claims(req)
			got := "none"
			if bad, ok := errors.AsType[*httplimit.RequestError](err); ok && bad.Status == http.StatusBadRequest {
				got = "refused"
			} else if found != nil {
				got, _ = found.Claim("sub")
			}
			if got != test.want {
				t.Errorf("%q, reject %t: %s (%v), want %s", test.value, test.options.Reject, got, err, test.want)
			}
		}
	}
}

// A token that is too long for the verifier may not be for the server.
func TestLongTokenIsRefused(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	token := sign(t, jwt.SigningMethodHS256, secret, "", jwt.MapClaims{"sub": "u1", "long": strings.Repeat("x", maxToken)})
	found, err := newVerifier(t, Options{Secret: secret}).Claims(bearing(token))
	if bad, ok := errors.AsType[*httplimit.RequestError](err); !ok || bad.Status != http.StatusRequestHeaderFieldsTooLarge || found != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// The form of a long header is checked in a time proportional to its length: each character is looked at a few times.
func TestLongHeaders(t *testing.T) {
	for _, text := range []string{strings.Repeat("eyJ", 1<<20), strings.Repeat("eyJhbGciOiJIU.", 1<<18) + "!", strings.Repeat("e", 1<<21) + "." + strings.Repeat("e", 1<<21)} {
		if holdsToken(text[:len(text)-1]+"!") && !strings.Contains(text, ".eyJ") {
			t.Errorf("%.40q… holds a token", text)
		}
	}
}
