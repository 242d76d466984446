package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
)

// A Key is what a [penstock.Limiter] counts requests by. A request without a key, because the header is
// missing or the function returns "", is rejected with 400: it never passes uncounted.
type Key struct {
	headers []string // the headers that it reads
	of      func(*http.Request, *penstock.Call) (string, error)
	proxies []netip.Prefix
	missing string // the error for a client without a key
	invalid string // why NewReader rejects the key; "" if it does not
}

// ByIP counts by the client's address, and by the /64 network of an IPv6 address: see
// [ReaderOptions].IPv6Prefix. The address is that of the connection's peer, unless the peer is one of the
// trusted proxies: then it is taken from X-Forwarded-For, as [Reader.ClientIP] describes.
func ByIP(trustedProxies ...netip.Prefix) Key {
	of := func(_ *http.Request, c *penstock.Call) (string, error) {
		ip, _ := c.Attribute("ip")
		return ip, nil
	}
	return Key{proxies: trustedProxies, of: of, missing: noAddress}
}

// ByHeader counts by the value of a header, such as an API key. The value must be verified elsewhere to
// identify a client: a client that may send any value gets a fresh limit with each.
func ByHeader(name string) Key {
	source := &attribute.Source{Attribute: penstock.KeyAttribute, Header: textproto.CanonicalMIMEHeaderKey(name)}
	of := func(req *http.Request, _ *penstock.Call) (string, error) {
		value, _, err := readSource(source, req, nil)
		if len(value) > MaxValue {
			return "", tooLong(http.StatusRequestHeaderFieldsTooLarge, nameOf(source), len(value))
		}
		return value, err
	}
	return Key{headers: []string{name}, of: of, missing: "the header " + name + " is missing"}
}

// ByFunc counts by what the function returns. An error rejects the request: a [*RequestError] with its status
// and detail, any other with 400 and without telling the client why. Options.OnError gets the error, unless it
// is a [*RequestError] without a cause. A function that returns several kinds of key must mark them, as in
// "user:"+id and "ip:"+address. Otherwise a client could choose a value that is the key of another.
func ByFunc(key func(*http.Request) (string, error)) Key {
	if key == nil {
		return Key{invalid: "the key function is nil; pass a function to ByFunc"}
	}
	of := func(req *http.Request, _ *penstock.Call) (string, error) { return key(req) }
	return Key{of: of, missing: "it cannot be attributed to a client"}
}

func (k *Key) isSet() bool { return k.of != nil }

// add adds the key to the attributes of the request.
func (k *Key) add(req *http.Request, c *penstock.Call) error {
	if !k.isSet() {
		return nil
	}
	value, err := k.of(req, c)
	if err != nil {
		return k.refusal(err)
	}
	if value == "" {
		return refuse(http.StatusBadRequest, "%s", k.missing)
	}
	c.Attributes = append(c.Attributes, penstock.Attribute{Name: penstock.KeyAttribute, Value: value})
	return nil
}

// validate returns what is wrong with the key.
func (k *Key) validate() (errs []error) {
	for _, name := range k.headers {
		if !isToken(name) {
			errs = append(errs, fmt.Errorf("invalid name %.64q of the key; use letters, digits and hyphens, for example X-Api-Key", name))
		}
	}
	if k.invalid != "" {
		errs = append(errs, errors.New(k.invalid))
	}
	return errs
}

// refusal returns the error of a function as a [*RequestError] that wraps it, for the operator.
func (k *Key) refusal(err error) error {
	if bad := (*RequestError)(nil); errors.As(err, &bad) {
		if bad.Error() == err.Error() { // nothing was added to it
			return bad
		}
		return &RequestError{Status: bad.Status, Detail: bad.Detail, Err: err}
	}
	return &RequestError{Status: http.StatusBadRequest, Detail: k.missing, Err: err}
}

// Limit returns middleware that asks the limiter before a request reaches its handler:
//
//	http.ListenAndServe(":8080", httplimit.Limit(limiter, httplimit.ByIP())(handler))
//
// It is [New] and [Limiter.Wrap] with default options: denied requests are answered with 429, Retry-After and
// a problem document, all responses except 3xx have RateLimit headers, the requests of a leaky bucket are held
// until they may proceed, and permits of a concurrency limit are renewed while a request runs and released when
// it ends. While the store is down requests are answered with 503, or pass if the limiter has
// [penstock.FailOpen]. With [New] such errors can be logged: see Options.OnError.
//
// Like [http.Handle], it panics on invalid arguments: if the limiter is nil, or the key is the zero value, has a nil
// function or is not the name of a header.
func Limit(limiter *penstock.Limiter, key Key) func(http.Handler) http.Handler {
	if limiter == nil {
		panic("httplimit.Limit: " + nilLimiter)
	}
	l, err := New(limiter, Options{ReaderOptions: ReaderOptions{Key: key}})
	if err != nil {
		panic(fmt.Errorf("httplimit.Limit: %w", err))
	}
	return l.Wrap
}
