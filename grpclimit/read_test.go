package grpclimit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/httplimit"
)

// Rules know the same of a gRPC request as of the HTTP request that carries it.
func TestAttributes(t *testing.T) {
	const text = `
attributes: {key: {header: X-Key}, tenant: {claim: tenant}}
rules:
  - {name: all, key: [key, tenant], limits: [100/1m]}
`
	var seen recordingDecider
	e := newEngine(t, text, engine.Options{Observe: seen.observe})
	client, _ := serveWith(t, newLimiter(t, e, grpclimit.Options{ReaderOptions: httplimit.ReaderOptions{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Claims: func(r *http.Request) (httplimit.Claims, error) {
			switch r.Header.Get("Authorization") {
			case "":
				return nil, nil
			case "Bearer good":
				return claims{"tenant": "acme"}, nil
			}
			return nil, &httplimit.RequestError{Status: http.StatusUnauthorized, Detail: "the token is not valid"}
		},
	}}), nil, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("API.Example.com:443"))

	ctx := metadata.AppendToOutgoingContext(patient(t), "x-key", "a, b", "idempotency-key", "call-1",
		"authorization", "Bearer good", "x-forwarded-for", "192.0.2.7, 2001:db8:1:2:3:4:5:6", "x_forwarded_for", "192.0.2.9")
	if _, err := client.UnaryCall(ctx, say("hello")); err != nil {
		t.Fatal(err)
	}
	c := seen.last(t)
	want := []penstock.Attribute{
		{Name: "ip", Value: "2001:db8:1:2::"},
		{Name: "method", Value: "POST"},
		{Name: "host", Value: "api.example.com"},
		{Name: "path", Value: unaryCall},
		{Name: "key", Value: "a, b"},
		{Name: "tenant", Value: "acme"},
	}
	if diff := cmp.Diff(want, c.Attributes); diff != "" {
		t.Errorf("attributes: -want +got\n%s", diff)
	}
	if c.ID != "call-1" || c.Cost != 1 {
		t.Errorf("id %q and cost %d, want call-1 and 1", c.ID, c.Cost)
	}
	if c.MaxDelay <= 0 || c.MaxDelay > patience {
		t.Errorf("it can be held for %v, which is not within its deadline", c.MaxDelay)
	}

	_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), "authorization", "Bearer bad"), say("hello"))
	wantCode(t, err, codes.Unauthenticated)
}

// If metadata is sent twice, a handler might use another value than is counted.
func TestMetadataSentTwice(t *testing.T) {
	e := newEngine(t, `
attributes: {key: {header: X-Key}, device: {cookie: device}}
rules:
  - {name: all, key: ["key?", "device?"], limits: [100/1m]}
`, engine.Options{})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))
	for _, pairs := range [][]string{
		{"x-key", "a", "x-key", "b"}, {"x-key", "a", "x_key", "b"}, {"x_key", "b"}, {"x.key", "b"}, {"cookie", "device=a", "cookie", "device=b"},
		{"idempotency-key", "a", "idempotency-key", "b"},
	} {
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), pairs...), say("hello"))
		wantCode(t, err, codes.InvalidArgument)
	}
	_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), "x-key", "a", "cookie", "device=a", "other", "a", "other", "b"), say("hello"))
	wantCode(t, err, codes.OK)
}

// recordingDecider keeps the requests that an engine decided.
type recordingDecider struct {
	mu    sync.Mutex
	calls []penstock.Call
}

func (s *recordingDecider) observe(o *engine.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *o.Call
	c.Attributes = slices.Clone(c.Attributes)
	s.calls = append(s.calls, c)
}

func (s *recordingDecider) last(t *testing.T) *penstock.Call {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) == 0 {
		t.Fatal("nothing was decided")
	}
	return &s.calls[len(s.calls)-1]
}

type claims map[string]string

func (c claims) Claim(name string) (string, bool) {
	value, ok := c[name]
	return value, ok
}

// Without trusted proxies no forwarded address is believed.
func TestForgedAddress(t *testing.T) {
	e := newEngine(t, "rules:\n  - {name: per-ip, key: [ip], limits: [{rate: 1/1m, algorithm: fixed_window}]}\n", engine.Options{Now: noon})
	client, _ := serve(t, newLimiter(t, e, grpclimit.Options{}))
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		ctx := metadata.AppendToOutgoingContext(patient(t), "x-forwarded-for", netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String())
		_, err := client.UnaryCall(ctx, say("hello"))
		wantCode(t, err, want)
	}
}

// Clients are distinguished by their verified certificates.
func TestCertificates(t *testing.T) {
	e := newEngine(t, `
attributes: {caller: {certificate: common_name}}
rules:
  - {name: per-caller, key: [caller], limits: [{rate: 1/1m, algorithm: fixed_window}]}
`, engine.Options{Now: noon})
	authority := newAuthority(t)
	serverTLS := &tls.Config{
		Certificates: []tls.Certificate{authority.issue(t, "server")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.pool,
	}
	for _, caller := range []string{"billing", "search"} {
		clientTLS := &tls.Config{Certificates: []tls.Certificate{authority.issue(t, caller)}, RootCAs: authority.pool}
		client, _ := serveWith(t, newLimiter(t, e, grpclimit.Options{}),
			[]grpc.ServerOption{grpc.Creds(credentials.NewTLS(serverTLS))}, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
		for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			_, err := client.UnaryCall(patient(t), say("hello"))
			wantCode(t, err, want)
		}
	}
}

// An authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t), pool: x509.NewCertPool()}
	template := certificateOf("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.certificate)
	return a
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, certificateOf(name), a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func certificateOf(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// If the decider says that the request is invalid, it is rejected without repeating what the client sent.
func TestBlamed(t *testing.T) {
	var told error
	client, service := serve(t, newLimiter(t, blamingDecider{}, grpclimit.Options{OnError: func(_ string, err error) { told = err }}))
	_, err := client.UnaryCall(patient(t), say("hello"))
	wantCode(t, err, codes.InvalidArgument)
	if service.reached.Load() != 0 || !errors.Is(told, penstock.ErrInvalid) {
		t.Errorf("it reached the service %d times, and told was %v", service.reached.Load(), told)
	}
}
