package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"reflect"
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

// ReaderOptions configure how requests are read. The zero value is ready to use.
type ReaderOptions struct {
	Domain string // of the requests

	// Key is what a [penstock.Limiter] counts requests by. Rules name their own attributes.
	Key Key

	// Sources returns what the rules read from a request, and is called for every request. The slice it
	// returns must not change; it may return another one. If the decider knows them, as an engine does,
	// middleware takes them from it and ignores this field; a client of a remote Penstock does not know them.
	Sources func() []attribute.Source

	// TrustedProxies are the peers that are trusted to name the client. By default there are none: the peer
	// is the client. ProxyHeader is the one header that names it: X-Forwarded-For (the default), Forwarded,
	// or the name of a header that holds a single address, such as X-Real-IP.
	TrustedProxies []netip.Prefix
	ProxyHeader    string

	// IPv6Prefix is how many bits of an IPv6 address distinguish clients, by default 64: a client usually
	// controls all addresses of its network.
	IPv6Prefix int

	IDHeader string // identifies a duplicate; by default Idempotency-Key

	// Claims returns the claims of the request's verified token; nil, nil if it has none. It is called if
	// rules need a claim. Its error rejects the request: with 401, unless it is a [*RequestError].
	Claims func(*http.Request) (Claims, error)

	// MaxJSON is how many bytes of a request's JSON body are read if rules need attributes of it; by default 1 MiB. A
	// larger body is not read: see [attribute.OnUnreadable].
	MaxJSON int64

	// ReadsBody reports whether rules may need attributes of the request's body, by its other attributes. If the
	// decider knows that, as an engine does, middleware asks it and ignores this field. Without it, the body of every
	// request is read if Sources has a field of one.
	ReadsBody func(*penstock.Call) bool

	// NeedsField reports whether rules that enforce their limits may need an attribute of the request's body, by its
	// other attributes. If it cannot be read, only such a request is denied. If the decider knows that, as an engine
	// does, middleware asks it and ignores this field. Without it, every attribute is needed.
	NeedsField func(c *penstock.Call, attribute string) bool

	// OnBody gets the errors of bodies that cannot be read for rules, so that defaults apply or the request is denied.
	OnBody func(*http.Request, *BodyError)

	// MaxDelay is how long a request can be held for a leaky bucket; one that would have to wait longer is
	// denied. By default middleware holds a request for as long as the rule's queue takes; a reader by itself
	// does not hold requests.
	MaxDelay time.Duration
}

// Claims are the claims of a verified token.
type Claims interface {
	// Claim returns a claim as text, and whether there is one that can be written as text. The name a.b means
	// b within a.
	Claim(name string) (string, bool)
}

// Bounds of what is read of a request. A request that exceeds them is rejected.
const (
	MaxValue      = bounds.AttributeValue // bytes of an attribute, and of an ID
	MaxParameters = 1000                  // of a query: other servers may read only the first ones
)

// A Reader converts HTTP requests for a decider. It is safe for concurrent use.
type Reader struct {
	options     ReaderOptions
	proxyHeader proxyHeader
	idHeader    string // canonical
	trusted     []netip.Prefix
	wanted      atomic.Pointer[readPlan]
	bodies      bodyBudget // of bodies that were read and not yet passed on

	keyOnly bool // the decider counts by the key alone, so a request needs no other attribute
}

// NewReaderFor returns a reader of requests for a decider. It reads the attributes that the decider knows of,
// and fails if the decider reads one that the reader cannot provide: see [attribute.Checker].
func NewReaderFor(d penstock.Decider, o ReaderOptions) (*Reader, error) {
	if err := checkNil(d); err != nil {
		return nil, err
	}
	if s, ok := d.(interface{ Sources() []attribute.Source }); ok {
		o.Sources = s.Sources
	}
	if s, ok := d.(interface{ ReadsBody(*penstock.Call) bool }); ok {
		o.ReadsBody = s.ReadsBody
	}
	if s, ok := d.(interface {
		NeedsField(c *penstock.Call, attribute string) bool
	}); ok {
		o.NeedsField = s.NeedsField
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
	_, r.keyOnly = d.(*penstock.Limiter)
	return r, nil
}

const nilLimiter = "the limiter is nil; check the error of penstock.New"

// checkNil rejects a decider that is a nil pointer, as it is if the error of a constructor was ignored. A nil
// interface passes: a reader by itself needs no decider.
func checkNil(d penstock.Decider) error {
	if v := reflect.ValueOf(d); v.Kind() != reflect.Pointer || !v.IsNil() {
		return nil
	}
	if _, ok := d.(*penstock.Limiter); ok {
		return fmt.Errorf("%w: %s", penstock.ErrInvalid, nilLimiter)
	}
	return fmt.Errorf("%w: the decider is a nil %T; check the error of the function that returned it", penstock.ErrInvalid, d)
}

// checkAttribute returns an error if requests never have an attribute. The error says why, and what to do
// about it.
func (r *Reader) checkAttribute(name string, from *attribute.Source) error {
	switch o := &r.options; {
	case slices.Contains(alwaysThere, name), name == penstock.KeyAttribute && o.Key.isSet():
		return nil
	case name == penstock.KeyAttribute && from == nil:
		return fmt.Errorf("no request has the attribute %q: set ReaderOptions.Key, for example to ByIP()", name)
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
	o.MaxJSON = cmp.Or(o.MaxJSON, defaultMaxJSON)
	if o.ReadsBody == nil {
		o.ReadsBody = func(*penstock.Call) bool { return true }
	}
	if o.NeedsField == nil {
		o.NeedsField = func(*penstock.Call, string) bool { return true }
	}
	if o.Sources == nil {
		o.Sources = func() []attribute.Source { return nil }
	}
	o.TrustedProxies = slices.Concat(o.TrustedProxies, o.Key.proxies)
	r := &Reader{options: o, bodies: bodyBudget{most: bounds.JSONBodies}, proxyHeader: proxyHeaderOf(o.ProxyHeader), idHeader: textproto.CanonicalMIMEHeaderKey(o.IDHeader)}
	errs := o.Key.validate()
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []string{o.IDHeader, o.ProxyHeader} {
		if !isToken(name) {
			fail("%.64q is not the name of a header", name)
		}
	}
	if o.IPv6Prefix < 1 || o.IPv6Prefix > 128 {
		fail("an IPv6 prefix of %d bits; from 1 to 128", o.IPv6Prefix)
	}
	if o.MaxJSON < 0 || o.MaxJSON > bounds.JSONBodies {
		fail("JSON bodies of %d bytes; from 1 to %d", o.MaxJSON, bounds.JSONBodies)
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

// Read fills in the call and reuses its memory. The call gets the attributes
//
//	ip      of the client: see [Reader.ClientIP]; for IPv6, the first address of its network:
//	        2001:db8:1:2:: for every address of 2001:db8:1:2::/64. Rules that name a network match
//	        it if that network is at least as large. A request whose peer has no address, as on a
//	        Unix socket, is rejected with 400, unless a [penstock.Limiter] counts by another key
//	method  as it was sent
//	host    in lower case, without port and without a dot at the end; a Host header that is not a
//	        host and an optional port is rejected with 400
//	path    as it was sent; rules normalise it by themselves
//
// and those of the sources that the request has, and [penstock.KeyAttribute] if there is a Key. A request
// that has the header, cookie, parameter or field of a source twice is rejected, as is one with a header that
// servers may read as that of a source. An error is a [*RequestError].
//
// If rules need attributes of the body, Read reads it and replaces req.Body with one that returns the same bytes. Close
// that one, or pass it on.
func (r *Reader) Read(req *http.Request, c *penstock.Call) error {
	w, err := r.readHead(req, c)
	if err == nil && w.body != nil && r.options.ReadsBody(c) {
		err = w.body.read(r, req, c)
	}
	if err != nil {
		return err
	}
	return r.options.Key.add(req, c)
}

// readHead reads what is known before the body.
func (r *Reader) readHead(req *http.Request, c *penstock.Call) (*readPlan, error) {
	o := &r.options
	*c = penstock.Call{Domain: o.Domain, Attributes: c.Attributes[:0], Cost: 1, MaxDelay: o.MaxDelay}
	var err error
	if c.ID, _, err = onevalue.Header(req.Header, r.idHeader); err != nil {
		return nil, badRequest(err)
	}
	if err := checkShape(req, c.ID, o.IDHeader); err != nil {
		return nil, err
	}
	host, err := hostOf(req)
	if err != nil {
		return nil, err
	}
	switch caller, err := r.caller(req); {
	case err == nil:
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: "ip", Value: caller.network(o.IPv6Prefix)})
	case !r.keyOnly:
		return nil, err
	}
	c.Attributes = append(c.Attributes,
		penstock.Attribute{Name: "method", Value: cmp.Or(req.Method, http.MethodGet)},
		penstock.Attribute{Name: "host", Value: host},
		penstock.Attribute{Name: "path", Value: req.URL.EscapedPath()},
	)
	for i := range c.Attributes {
		if a := &c.Attributes[i]; len(a.Value) > MaxValue {
			return nil, tooLong(http.StatusRequestURITooLong, "the "+a.Name, len(a.Value))
		}
	}
	w := r.sources()
	return w, w.read(r, req, c)
}

// checkShape rejects requests that other servers could read in another way.
func checkShape(req *http.Request, id, idHeader string) error {
	if req.URL.Opaque != "" {
		return refuse(http.StatusBadRequest, "the request target has no path")
	}
	if req.URL.User != nil {
		return refuse(http.StatusBadRequest, "the request target has user information")
	}
	if n := strings.Count(req.URL.RawQuery, "&") + 1; n > MaxParameters {
		return refuse(http.StatusBadRequest, "the query has %d parameters; at most %d", n, MaxParameters)
	}
	if len(id) > MaxValue {
		return tooLong(http.StatusRequestHeaderFieldsTooLarge, "the header "+idHeader, len(id))
	}
	return nil
}

// sources returns what the rules read, recomputed when that changes.
func (r *Reader) sources() *readPlan {
	now := r.options.Sources()
	w := r.wanted.Load()
	if w != nil && len(w.of) == len(now) && (len(now) == 0 || &w.of[0] == &now[0]) {
		return w
	}
	w = newReadPlan(now, r.idHeader, r.options.Key.headers)
	r.wanted.Store(w)
	return w
}

// hostOf returns the host of a request in the form in which rules compare it. HTTP/1.0 requests may have
// none, and neither may requests that were not read by a server.
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
