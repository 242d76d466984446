package jwtclaims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/onevalue"
)

// Options say which tokens are believed. Exactly one of JWKSURL, JWKSFile and Secret is given.
type Options struct {
	// JWKSURL is where the issuer publishes its keys. They are fetched at the start, every Refresh
	// (by default an hour), and when a token names a key that is not among them, though at most
	// once a minute.
	JWKSURL string
	Refresh time.Duration
	Client  *http.Client // for fetching; nil: http.DefaultClient

	JWKSFile string // the same as a file, read at the start
	Secret   []byte // of tokens signed with HMAC; at least 32 bytes

	// Algorithms are those that tokens may be signed with. By default all asymmetric ones that are
	// sound, or with Secret HS256, HS384 and HS512.
	Algorithms []string

	Issuer   string        // "": any
	Audience string        // "": any
	Leeway   time.Duration // how far the issuer's clock may differ, by default not at all

	// A token is read from one place: the Authorization header, as a bearer's; or another header,
	// where it stands alone or as a bearer's; or a cookie.
	Header string
	Cookie string

	// Reject refuses requests whose token is not valid. Otherwise they are taken as if they had
	// none: rules that need a claim do not apply to them. So without Reject each such rule needs
	// another one for anonymous requests. In both cases a request is refused whose token is in another
	// form than the strict one, because servers disagree on whether they accept it.
	Reject bool

	// OnError gets what goes wrong when keys are fetched.
	OnError func(error)
}

// maxToken is how long a token may be, in bytes.
const maxToken = 8 << 10

var (
	asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	symmetric  = []string{"HS256", "HS384", "HS512"}
)

// A Verifier verifies tokens. It may be used by any number of goroutines.
type Verifier struct {
	options Options
	keys    jwt.Keyfunc
	parser  *jwt.Parser
}

// New returns a verifier. The context ends the fetching of keys. Keys that cannot be fetched at the
// start are fetched later; until then no token is valid.
func New(ctx context.Context, o Options) (*Verifier, error) {
	allowed := asymmetric
	if len(o.Secret) > 0 {
		allowed = symmetric
	}
	if err := o.validate(allowed); err != nil {
		return nil, fmt.Errorf("verify tokens: %w: %w", penstock.ErrInvalid, err)
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = allowed
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	keys, err := o.keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify tokens: %w", err)
	}
	return &Verifier{options: o, keys: keys, parser: jwt.NewParser(o.parserOptions()...)}, nil
}

func (o *Options) validate(allowed []string) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	o.validateKeys(fail)
	for _, name := range o.Algorithms {
		if !slices.Contains(allowed, name) {
			fail("algorithm %.32q with such keys; of %s", name, strings.Join(allowed, ", "))
		}
	}
	if o.Header != "" && o.Cookie != "" {
		fail("the header %.64q and the cookie %.64q; a token is read from one place", o.Header, o.Cookie)
	}
	if o.Leeway < 0 || o.Leeway > time.Hour {
		fail("a leeway of %v; from 0 to 1h", o.Leeway)
	}
	if o.Refresh < 0 {
		fail("keys fetched every %v; it cannot be negative", o.Refresh)
	}
	return errors.Join(errs...)
}

// validateKeys checks where the keys come from.
func (o *Options) validateKeys(fail func(format string, args ...any)) {
	given := 0
	for _, is := range []bool{o.JWKSURL != "", o.JWKSFile != "", len(o.Secret) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		fail("%d of JWKSURL, JWKSFile and Secret are given; set exactly one", given)
	}
	if u, err := url.Parse(o.JWKSURL); o.JWKSURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		fail("the keys' address must be an http or https URL")
	}
	if n := len(o.Secret); n > 0 && n < 32 {
		fail("a secret of %d bytes is too short; at least 32", n)
	}
}

// parserOptions are what a token must meet beside its signature. One that never expires is not believed:
// nobody could take it back.
func (o *Options) parserOptions() []jwt.ParserOption {
	demands := []jwt.ParserOption{
		jwt.WithValidMethods(o.Algorithms),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(o.Leeway),
		jwt.WithJSONNumber(),
	}
	if o.Issuer != "" {
		demands = append(demands, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		demands = append(demands, jwt.WithAudience(o.Audience))
	}
	return demands
}

func (o *Options) keys(ctx context.Context) (jwt.Keyfunc, error) {
	switch {
	case o.JWKSURL != "":
		return o.fetched(ctx)
	case o.JWKSFile != "":
		text, err := os.ReadFile(o.JWKSFile)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		keys, err := keyfunc.NewJWKSetJSON(text)
		if err != nil {
			return nil, fmt.Errorf("read keys from %s: %w: %w", o.JWKSFile, penstock.ErrInvalid, err)
		}
		return keys.Keyfunc, nil
	}
	return func(*jwt.Token) (any, error) { return o.Secret, nil }, nil
}

// Claims returns the claims of the request's token, for [httplimit.ReaderOptions], or none without a
// token. A request with two tokens is refused: the upstream server might use the other.
func (v *Verifier) Claims(req *http.Request) (httplimit.Claims, error) {
	token, err := v.token(req)
	if err != nil {
		return nil, &httplimit.RequestError{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	if token == "" {
		return nil, nil
	}
	if len(token) > maxToken && isToken(token) { // a server with a larger bound might believe it
		return nil, &httplimit.RequestError{Status: http.StatusRequestHeaderFieldsTooLarge, Detail: fmt.Sprintf("the token has %d bytes; at most %d", len(token), maxToken)}
	}
	found, err := v.verify(token)
	switch {
	case err == nil:
		return found, nil
	case v.options.Reject:
		return nil, err
	}
	return nil, nil
}

func (v *Verifier) verify(token string) (claims, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("verify a token: it has %d bytes; at most %d", len(token), maxToken)
	}
	found := jwt.MapClaims{}
	if _, err := v.parser.ParseWithClaims(token, found, v.keys); err != nil {
		return nil, fmt.Errorf("verify a token: %w", err)
	}
	return claims(found), nil
}

// token returns the request's token, "" if it has none.
func (v *Verifier) token(req *http.Request) (string, error) {
	if name := v.options.Cookie; name != "" {
		value, _, err := onevalue.Cookie(req, name)
		if err == nil && !isToken(value) && holdsToken(value) {
			err = fmt.Errorf("the cookie %s holds a token and something else; it must be the token alone", name)
		}
		return value, err
	}
	header := http.CanonicalHeaderKey(cmp.Or(v.options.Header, "Authorization"))
	text, _, err := onevalue.Header(req.Header, header)
	if err == nil {
		err = onevalue.CheckAliases(req.Header, header)
	}
	if err != nil {
		return "", err
	}
	token := ""
	if scheme, rest, ok := strings.Cut(text, " "); ok && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimLeft(rest, " ")
	} else if v.options.Header != "" {
		token = text
	}
	if !isToken(token) && holdsToken(text) {
		return "", fmt.Errorf("the header %s holds a token that is not written as Bearer, a space and the token", header)
	}
	return token, nil
}
