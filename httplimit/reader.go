package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/urlform"
)

// ReaderOptions say how requests are read. The zero value is fit for use.
type ReaderOptions struct {
	Domain string // of the calls

	// Key is what requests count by before a [penstock.Limiter]. Rules name their own attributes.
	Key Key

	// Sources are what the rules want to know of a request, asked for every one. The slice it returns
	// must not change; another one may be returned. Middleware of a decider that knows them, as an
	// engine does, takes them from it, whatever is said here; a client of a remote Penstock does not.
	Sources func() []attribute.Source

	// TrustedProxies are the peers whose word is taken for who the caller is, and none by default:
	// the peer is the caller. ProxyHeader is the one header it is taken from: X-Forwarded-For (the
	// default), Forwarded, or the name of one that holds a single address, such as X-Real-IP.
	TrustedProxies []netip.Prefix
	ProxyHeader    string

	// IPv6Prefix is how many bits of an IPv6 address tell callers apart, by default 64: whoever has
	// a network has all its addresses.
	IPv6Prefix int

	IDHeader string // of what makes a repeat recognisable; by default Idempotency-Key

	// Claims returns those of the request's verified token; nil, nil if it has none. It is asked
	// where rules want a claim, and its error refuses the request: with 401, unless it is a
	// [*RequestError].
	Claims func(*http.Request) (Claims, error)

	// MaxDelay is how long a call can be held for a leaky bucket; one that would have to wait longer is
	// denied. By default a middleware holds for as long as the rule's queue takes; a reader by itself
	// says that calls cannot be held.
	MaxDelay time.Duration
}

// Claims are what a verified token says.
type Claims interface {
	// Claim returns a claim as text, and whether there is one that can be written so. The name a.b
	// means b within a.
	Claim(name string) (string, bool)
}

// Bounds of what is read of a request. A request that exceeds them is refused.
const (
	MaxValue      = bounds.AttributeValue // bytes of an attribute, and of an id
	MaxParameters = 1000                  // of a query, so that nobody who looks at it sees only a part
)

// A Reader makes calls of requests. It may be used by any number of goroutines.
type Reader struct {
	options     ReaderOptions
	proxyHeader proxyHeader
	idHeader    string // canonical
	trusted     []netip.Prefix
	wanted      atomic.Pointer[wanted]
}

// NewReaderFor returns a reader of requests for a decider. It reads the attributes that the decider knows
// of, and fails if the decider reads one that it cannot provide: see [attribute.Checker].
func NewReaderFor(d penstock.Decider, o ReaderOptions) (*Reader, error) {
	if s, ok := d.(interface{ Sources() []attribute.Source }); ok {
		o.Sources = s.Sources
	}
	r, err := NewReader(o)
	if err != nil {
		return nil, err
	}
	if c, ok := d.(attribute.Checker); ok {
		if err := c.CheckAttributes(cmp.Or(o.Domain, penstock.DefaultDomain), r.checkAttribute); err != nil {
			return nil, fmt.Errorf("%w: %w", penstock.ErrInvalid, err)
		}
	}
	return r, nil
}

// checkAttribute says why requests never have an attribute, and what to do about it.
func (r *Reader) checkAttribute(name string, from *attribute.Source) error {
	switch o := &r.options; {
	case slices.Contains(alwaysThere, name), name == penstock.KeyAttribute && o.Key.isSet():
		return nil
	case name == penstock.KeyAttribute && from == nil:
		return fmt.Errorf("no request has the attribute %q: set ReaderOptions.Key, for example to httplimit.ByIP()", name)
	case from == nil:
		return fmt.Errorf("no request has the attribute %q: say in the rules where it comes from, for example attributes: {%s: {header: X-%s}}", name, name, name)
	case from.Claim != "" && o.Claims == nil:
		return fmt.Errorf("no request has the attribute %q, which is the claim %q of a verified token: set ReaderOptions.Claims, for example with package httplimit/jwtclaims", name, from.Claim)
	}
	return nil
}

// NewReader returns a reader.
func NewReader(o ReaderOptions) (*Reader, error) {
	o.IPv6Prefix = cmp.Or(o.IPv6Prefix, 64)
	o.IDHeader = cmp.Or(o.IDHeader, "Idempotency-Key")
	o.ProxyHeader = cmp.Or(o.ProxyHeader, "X-Forwarded-For")
	if o.Sources == nil {
		o.Sources = func() []attribute.Source { return nil }
	}
	o.TrustedProxies = slices.Concat(o.TrustedProxies, o.Key.proxies)
	r := &Reader{options: o, proxyHeader: proxyHeaderOf(o.ProxyHeader), idHeader: textproto.CanonicalMIMEHeaderKey(o.IDHeader)}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range append([]string{o.IDHeader, o.ProxyHeader}, o.Key.headers...) {
		if !isToken(name) {
			fail("%.64q is not the name of a header", name)
		}
	}
	if o.IPv6Prefix < 1 || o.IPv6Prefix > 128 {
		fail("an IPv6 prefix of %d bits; from 1 to 128", o.IPv6Prefix)
	}
	if o.MaxDelay < 0 {
		fail("a maximum delay of %v; it cannot be negative", o.MaxDelay)
	}
	for _, p := range o.TrustedProxies {
		unmapped, ok := unmap(p)
		if !ok {
			fail("trusted proxies %v: no network; one is written 10.0.0.0/8 or 2001:db8::/32", p)
		}
		r.trusted = append(r.trusted, unmapped)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("read requests: %w: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return r, nil
}

// Read fills the call, in the memory it has. It has the attributes
//
//	ip      of the caller: see [Reader.ClientIP]; the first of its network if it is IPv6,
//	        2001:db8:1:2:: for every address of 2001:db8:1:2::/64. Rules that name a network match
//	        it if that is no smaller
//	method  as it was sent
//	host    in lower case, without port and without a dot at the end; a Host header that is not a
//	        host and an optional port is refused with 400
//	path    as it was sent; rules normalise it by themselves
//
// and those of the sources that the request has, and [penstock.KeyAttribute] if there is a Key. A request
// that has the header, cookie or parameter of a source twice is refused, as is one with a header that
// servers take for that of a source. An error is a [*RequestError].
func (r *Reader) Read(req *http.Request, c *penstock.Call) error {
	o := &r.options
	*c = penstock.Call{Domain: o.Domain, Attributes: c.Attributes[:0], Cost: 1, MaxDelay: o.MaxDelay}
	var err error
	if c.ID, _, err = onevalue.Header(req.Header, r.idHeader); err != nil {
		return badRequest(err)
	}
	if err := checkShape(req, c.ID, o.IDHeader); err != nil {
		return err
	}
	host, err := hostOf(req)
	if err != nil {
		return err
	}
	caller, err := r.caller(req)
	if err != nil {
		return err
	}
	c.Attributes = append(c.Attributes,
		penstock.Attribute{Name: "ip", Value: caller.network(o.IPv6Prefix)},
		penstock.Attribute{Name: "method", Value: cmp.Or(req.Method, http.MethodGet)},
		penstock.Attribute{Name: "host", Value: host},
		penstock.Attribute{Name: "path", Value: req.URL.EscapedPath()},
	)
	for i := range c.Attributes {
		if a := &c.Attributes[i]; len(a.Value) > MaxValue {
			return tooLong(http.StatusRequestURITooLong, "the "+a.Name, len(a.Value))
		}
	}
	if err := r.sources().read(r, req, c); err != nil {
		return err
	}
	return o.Key.add(req, c)
}

// checkShape refuses what could be read in one way here and in another elsewhere.
func checkShape(req *http.Request, id, idHeader string) error {
	if req.URL.Opaque != "" {
		return refuse(http.StatusBadRequest, "the request's target has no path")
	}
	if req.URL.User != nil {
		return refuse(http.StatusBadRequest, "the request's target has user information")
	}
	if n := strings.Count(req.URL.RawQuery, "&") + 1; n > MaxParameters {
		return refuse(http.StatusBadRequest, "the query has %d parameters; at most %d", n, MaxParameters)
	}
	if len(id) > MaxValue {
		return tooLong(http.StatusRequestHeaderFieldsTooLarge, "the header "+idHeader, len(id))
	}
	return nil
}

// sources returns what the rules want to know, worked out when that last changed.
func (r *Reader) sources() *wanted {
	now := r.options.Sources()
	w := r.wanted.Load()
	if w != nil && len(w.of) == len(now) && (len(now) == 0 || &w.of[0] == &now[0]) {
		return w
	}
	w = newWanted(now, r.idHeader, r.options.Key.headers)
	r.wanted.Store(w)
	return w
}

// hostOf returns the host of a request in the form in which rules compare it. Requests of HTTP/1.0 may
// have none, as may those that no server has read.
func hostOf(req *http.Request) (string, error) {
	if req.Host == "" && !req.ProtoAtLeast(1, 1) {
		return "", nil
	}
	host, err := urlform.Host(req.Host)
	if err != nil {
		return "", badRequest(err)
	}
	return host, nil
}

func isToken(name string) bool {
	return name != "" && !slices.ContainsFunc([]byte(name), func(c byte) bool {
		return c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0
	})
}
