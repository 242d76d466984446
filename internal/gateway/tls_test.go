package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/listener"
)

// A pair is a self-signed certificate for servers and clients, in files.
type pair struct {
	certificate, key string
	serial           *big.Int
	pool             *x509.CertPool
}

func newPair(t testing.TB) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "billing"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), serial, x509.NewCertPool()}
	writePEM(t, p.certificate, "CERTIFICATE", der)
	writePEM(t, p.key, "PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p.pool.AddCert(parsed)
	return p
}

// certificates loads the files.
func certificates(t testing.TB, files listener.TLS) *listener.Certificates {
	t.Helper()
	c, err := listener.NewCertificates(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p pair) files(t testing.TB) *listener.Certificates {
	t.Helper()
	return certificates(t, listener.TLS{Certificate: p.certificate, Key: p.key})
}

func writePEM(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p pair) client(t testing.TB, shown ...pair) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: p.pool}
	for _, s := range shown {
		certificate, err := tls.LoadX509KeyPair(s.certificate, s.key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = append(config.Certificates, certificate)
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestClientCertificates(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	own, known, unknown := newPair(t), newPair(t), newPair(t)
	text := "attributes: {service: {certificate: common_name}}\nrules: [{name: services, key: [service], limits: [2/1h]}]"
	files := listener.TLS{Certificate: own.certificate, Key: own.key, ClientCA: known.certificate}
	optional := start(t, setting{rules: text, options: Options{Upstreams: upstreams(server), TLS: certificates(t, files)}})
	files.Required = true
	required := start(t, setting{rules: text, options: Options{Upstreams: upstreams(server), TLS: certificates(t, files)}})

	get(t, own.client(t, known), optional.url("/"))
	get(t, own.client(t), optional.url("/"))
	calls := optional.counted()
	if len(calls) != 2 || attributeOf(&calls[0], "service") != "billing" || attributeOf(&calls[1], "service") != "" {
		t.Errorf("counted %v", calls)
	}
	for _, refused := range []struct {
		by    *testGateway
		shown []pair
	}{{optional, []pair{unknown}}, {required, []pair{unknown}}, {required, nil}} {
		if res, err := own.client(t, refused.shown...).Get(refused.by.url("/")); err == nil {
			res.Body.Close()
			t.Errorf("status %d for a client that shows %d unknown certificates", res.StatusCode, len(refused.shown))
		}
	}
	if calls := required.counted(); len(calls) != 0 {
		t.Errorf("counted %v", calls)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	own := newPair(t)
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	s := start(t, setting{options: Options{Upstreams: upstreams(server), TLS: own.files(t)}})
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", s.listen.String(), &tls.Config{RootCAs: own.pool, MinVersion: version, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
			conn.Close()
		}
	}
}

func TestUpstreamWithTLS(t *testing.T) {
	own := newPair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, req.Proto+" "+req.Host) }),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, own.certificate, own.key) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	address := "https://" + l.Addr().String()
	s := start(t, setting{options: Options{Upstreams: []Upstream{
		{URLs: []string{address}, RootCAs: own.certificate, RewriteHost: true},
		{Path: "/unknown", URLs: []string{address}},
	}}})
	client := newClient(t)
	if got := get(t, client, s.url("/")); got.body != "HTTP/2.0 "+l.Addr().String() {
		t.Errorf("%d %q", got.StatusCode, got.body)
	}
	if got := get(t, client, s.url("/unknown")); got.StatusCode != http.StatusBadGateway {
		t.Errorf("%d from a server that cannot be verified", got.StatusCode)
	}
}
