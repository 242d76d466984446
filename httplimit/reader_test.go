package httplimit

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
)

// callOf returns the attributes that are read from a request.
func callOf(t *testing.T, r *Reader, req *http.Request) map[string]string {
	t.Helper()
	var c penstock.Call
	if err := r.Read(req, &c); err != nil {
		t.Fatal(err)
	}
	attributes := map[string]string{}
	for _, a := range c.Attributes {
		if _, twice := attributes[a.Name]; twice {
			t.Errorf("attribute %s twice", a.Name)
		}
		attributes[a.Name] = a.Value
	}
	return attributes
}

type claimMap map[string]string

func (c claimMap) Claim(name string) (string, bool) { v, ok := c[name]; return v, ok }

func TestRead(t *testing.T) {
	uri, _ := url.Parse("spiffe://example.org/web")
	r := newReader(t, ReaderOptions{
		Domain: "shop",
		Sources: sources(
			attribute.Source{Attribute: "user", Header: "x-user"},
			attribute.Source{Attribute: "session", Cookie: "sid"},
			attribute.Source{Attribute: "q", Query: "q"},
			attribute.Source{Attribute: "plan", Claim: "plan"},
			attribute.Source{Attribute: "name", Certificate: attribute.CommonName},
			attribute.Source{Attribute: "dns", Certificate: attribute.DNSName},
			attribute.Source{Attribute: "email", Certificate: attribute.Email},
			attribute.Source{Attribute: "service", Certificate: attribute.URI},
			attribute.Source{Attribute: "print", Certificate: attribute.Fingerprint},
			attribute.Source{Attribute: "sent_host", Header: "host"},
			attribute.Source{Attribute: "none", Header: "X-None"},
			attribute.Source{Attribute: "no_cookie", Cookie: "none"},
			attribute.Source{Attribute: "no_query", Query: "none"},
			attribute.Source{Attribute: "no_claim", Claim: "none"},
			attribute.Source{Attribute: "ip", Header: "X-User"},   // as good as it is
			attribute.Source{Attribute: "user", Header: "X-None"}, // only once
		),
		Claims: func(*http.Request) (Claims, error) { return claimMap{"plan": "gold"}, nil },
	})
	req := request("http://Shop.Example.com.:8080/a%2Fb?x=1&q=one%20%26")
	req.Method = "POST"
	req.Header.Set("X-User", "u1, u2")
	req.Header.Set("Cookie", "sid=abc; other=sid")
	req.Header.Set("Idempotency-Key", "k1")
	req.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{
		Raw: []byte("certificate"), Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.example.org", "b"},
		EmailAddresses: []string{"ops@example.org"}, URIs: []*url.URL{uri},
	}}}}
	want := map[string]string{
		"ip": "192.0.2.1", "method": "POST", "host": "shop.example.com", "path": "/a%2Fb",
		"user": "u1, u2", "session": "abc", "q": "one &", "plan": "gold", "sent_host": "shop.example.com",
		"name": "web", "dns": "web.example.org", "email": "ops@example.org", "service": "spiffe://example.org/web",
		"print": fmt.Sprintf("%x", sha256.Sum256([]byte("certificate"))),
	}
	if diff := cmp.Diff(want, callOf(t, r, req)); diff != "" {
		t.Error(diff)
	}
	c := penstock.Call{TTL: 1, Reserve: true}
	if err := r.Read(req, &c); err != nil || c.Domain != "shop" || c.ID != "k1" || c.Cost != 1 || c.MaxDelay != 0 || c.TTL != 0 || c.Reserve {
		t.Errorf("%+v, %v", c, err)
	}
}

// A certificate that was not verified gives no attributes.
func TestUnverifiedCertificate(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: sources(attribute.Source{Attribute: "name", Certificate: attribute.CommonName})})
	req := request("/")
	req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "web"}}}}
	if name, ok := callOf(t, r, req)["name"]; ok {
		t.Errorf("got %q", name)
	}
}

// Hosts are compared in one form. An invalid one is rejected, and over HTTP/1.1 so is a missing one.
func TestHost(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: sources(attribute.Source{Attribute: "named", Header: "Host"})})
	for host, want := range map[string]string{
		"Example.COM": "example.com", "example.com.:80": "example.com", "[2001:DB8::1]:80": "2001:db8::1", "1.2.3.4:5": "1.2.3.4",
		"a:80:80": "", "user@a": "", "a b": "", "a..b": "", "ä": "", "": "",
	} {
		req := request("/")
		req.Host = host
		var c penstock.Call
		if err := r.Read(req, &c); (err != nil) != (want == "") {
			t.Errorf("%q: %v", host, err)
			continue
		}
		if got, _ := c.Attribute("host"); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
		if got, _ := c.Attribute("named"); got != want {
			t.Errorf("%q: got %q from the header, want %q", host, got, want)
		}
	}
	old := request("/")
	old.Host, old.ProtoMajor, old.ProtoMinor = "", 1, 0
	var c penstock.Call
	if err := r.Read(old, &c); err != nil {
		t.Errorf("HTTP/1.0 without a host: %v", err)
	}
}

// A request ID with an alias is rejected even if no rule reads a header.
func TestReadRefusesAliasOfID(t *testing.T) {
	req := request("/")
	req.Header.Set("Idempotency-Key", "a")
	req.Header.Set("Idempotency_Key", "b")
	var c penstock.Call
	if err := newReader(t, ReaderOptions{}).Read(req, &c); err == nil || !strings.Contains(err.Error(), "servers read as Idempotency-Key") {
		t.Errorf("got %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxValue+1)
	all := sources(
		attribute.Source{Attribute: "user", Header: "X-User"}, attribute.Source{Attribute: "session", Cookie: "sid"},
		attribute.Source{Attribute: "q", Query: "q"}, attribute.Source{Attribute: "plan", Claim: "plan"},
	)
	good := func(*http.Request) (Claims, error) { return nil, nil }
	for _, test := range []struct {
		name   string
		claims func(*http.Request) (Claims, error)
		change func(*http.Request)
		status int
		says   string
	}{
		{"header", good, func(r *http.Request) { r.Header.Set("X-User", long) }, 431, "the header X-User (attribute user) has 8193 bytes; at most 8192"},
		{"header twice", good, func(r *http.Request) { r.Header["X-User"] = []string{"a", "b"} }, 400, "the header X-User is sent more than once"},
		{"header and alias", good, func(r *http.Request) { r.Header.Set("X-User", "a"); r.Header.Set("X_User", "b") }, 400, "a header was sent that servers read as X-User"},
		{"header's alias", good, func(r *http.Request) { r.Header.Set("X_User", "b") }, 400, "a header was sent that servers read as X-User"},
		{"cookie twice", good, func(r *http.Request) { r.Header["Cookie"] = []string{"sid=a; x=1", "sid=b"} }, 400, "the cookie sid is sent more than once"},
		{"parameter twice", good, func(r *http.Request) { r.URL.RawQuery = "q=a&%71=b" }, 400, "the query parameter q is sent more than once"},
		{"id twice", good, func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }, 400, "the header Idempotency-Key is sent more than once"},
		{"id and alias", good, func(r *http.Request) { r.Header.Set("Idempotency-Key", "a"); r.Header.Set("Idempotency_Key", "b") }, 400, "servers read as Idempotency-Key"},
		{"token twice", func(*http.Request) (Claims, error) {
			return nil, &RequestError{Status: 400, Detail: "the header X-Token is sent more than once"}
		}, func(r *http.Request) {}, 400, "the header X-Token is sent more than once"},
		{"cookie", good, func(r *http.Request) { r.Header.Set("Cookie", "sid="+long) }, 431, "the cookie sid (attribute session)"},
		{"parameter", good, func(r *http.Request) { r.URL.RawQuery = "q=" + long }, 431, "the parameter q (attribute q)"},
		{"claim", func(*http.Request) (Claims, error) { return claimMap{"plan": long}, nil }, func(r *http.Request) {}, 431, "attribute plan"},
		{"id", good, func(r *http.Request) { r.Header.Set("Idempotency-Key", long) }, 431, "the header Idempotency-Key"},
		{"path", good, func(r *http.Request) { r.URL.Path = "/" + long }, 414, "the path"},
		{"host", good, func(r *http.Request) { r.Host = long }, 400, "invalid Host header"},
		{"userinfo", good, func(r *http.Request) { r.URL.User = url.User("x") }, 400, "user information"},
		{"parameters", good, func(r *http.Request) { r.URL.RawQuery = strings.Repeat("a&", MaxParameters) }, 400, "1001 parameters; at most 1000"},
		{"semicolon", good, func(r *http.Request) { r.URL.RawQuery = "a=1;q=2" }, 400, "semicolon"},
		{"escape", good, func(r *http.Request) { r.URL.RawQuery = "q=1&%zz=2" }, 400, "begins no escape"},
		{"opaque", good, func(r *http.Request) { r.URL.Opaque = "x" }, 400, "no path"},
		{"token", func(*http.Request) (Claims, error) { return nil, errors.New("expired") }, func(r *http.Request) {}, 401, "token is not valid: expired"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReader(t, ReaderOptions{Sources: all, Claims: test.claims})
			req := request("/")
			test.change(req)
			var c penstock.Call
			err := r.Read(req, &c)
			var bad *RequestError
			if !errors.As(err, &bad) || !errors.Is(err, penstock.ErrInvalid) || bad.Status != test.status || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestReadAtTheBounds(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: sources(attribute.Source{Attribute: "q", Query: "q"})})
	req := request("/")
	req.URL.RawQuery = strings.Repeat("a&", MaxParameters-1) + "q=" + strings.Repeat("x", MaxValue)
	if got := callOf(t, r, req)["q"]; len(got) != MaxValue {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestReaderOptionsAreChecked(t *testing.T) {
	_, err := NewReader(ReaderOptions{
		ProxyHeader: "X Y", IDHeader: "a:b", IPv6Prefix: 129, MaxDelay: -1,
		TrustedProxies: []netip.Prefix{{}, netip.MustParsePrefix("::ffff:0.0.0.0/90")},
	})
	if !errors.Is(err, penstock.ErrInvalid) {
		t.Fatal(err)
	}
	for _, says := range []string{`"X Y"`, `"a:b"`, "129 bits", "-1ns", "invalid Prefix", "/90"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
}

// The sources follow the rules.
func TestSourcesChange(t *testing.T) {
	now := []attribute.Source{{Attribute: "a", Header: "X-A"}}
	r := newReader(t, ReaderOptions{Sources: func() []attribute.Source { return now }})
	req := request("/")
	req.Header.Set("X-A", "1")
	req.Header.Set("X-B", "2")
	if got := callOf(t, r, req); got["a"] != "1" || got["b"] != "" {
		t.Error(got)
	}
	now = []attribute.Source{{Attribute: "b", Header: "X-B"}}
	if got := callOf(t, r, req); got["b"] != "2" || len(got) != 5 {
		t.Error(got)
	}
	now = nil
	if got := callOf(t, r, req); len(got) != 4 {
		t.Error(got)
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	r := newReader(t, ReaderOptions{Sources: sources(attribute.Source{Attribute: "user", Header: "x-user"}), TrustedProxies: testProxies})
	req := request("http://example.com/a/b?c=d")
	req.Header.Set("X-User", "u1")
	behind := req.Clone(t.Context())
	behind.RemoteAddr = "10.0.0.1:1"
	behind.Header.Set("X-Forwarded-For", "203.0.113.9, 198.51.100.7, 10.1.1.1")
	var c penstock.Call
	for name, req := range map[string]*http.Request{"direct": req, "behind proxies": behind} {
		if n := testing.AllocsPerRun(1000, func() {
			if err := r.Read(req, &c); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
