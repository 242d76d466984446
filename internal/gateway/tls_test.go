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
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A pair is a certificate that vouches for itself, for servers and clients, in files.
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

func TestCertificateIsReadAgain(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	first, second := newPair(t), newPair(t)
	s := newStand(t, setting{options: Options{Upstreams: upstreams(server), TLS: &TLS{Certificate: first.certificate, Key: first.key}}})
	s.tls.interval = 0 // look for each client
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(l)

	shown := func(p pair) *big.Int { return get(t, p.client(t), s.url("/")).TLS.PeerCertificates[0].SerialNumber }
	if shown(first).Cmp(first.serial) != 0 {
		t.Error("the first certificate is not shown")
	}
	replace(t, first.certificate, "not a certificate")
	if shown(first).Cmp(first.serial) != 0 {
		t.Error("a file that cannot be read took the certificate away")
	}
	for from, to := range map[string]string{second.key: first.key, second.certificate: first.certificate} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, to, string(text))
	}
	if shown(second).Cmp(second.serial) != 0 {
		t.Error("the second certificate is not shown")
	}
}

// replace puts a new file in the place of another, as who rotates certificates does. Its time
// differs for sure.
func replace(t testing.TB, name, text string) {
	t.Helper()
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	later := before.ModTime().Add(time.Second)
	if err := os.Chtimes(name+".new", later, later); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestClientCertificates(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	own, known, unknown := newPair(t), newPair(t), newPair(t)
	text := "attributes: {service: {certificate: common_name}}\nrules: [{name: services, key: [service], limits: [2/1h]}]"
	files := TLS{Certificate: own.certificate, Key: own.key, ClientCA: known.certificate}
	optional := start(t, setting{rules: text, options: Options{Upstreams: upstreams(server), TLS: new(files)}})
	files.Required = true
	required := start(t, setting{rules: text, options: Options{Upstreams: upstreams(server), TLS: new(files)}})

	get(t, own.client(t, known), optional.url("/"))
	get(t, own.client(t), optional.url("/"))
	calls := optional.counted()
	if len(calls) != 2 || attributeOf(&calls[0], "service") != "billing" || attributeOf(&calls[1], "service") != "" {
		t.Errorf("counted %v", calls)
	}
	for _, refused := range []struct {
		by    *stand
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

func TestTLSMistakes(t *testing.T) {
	good := newPair(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		files TLS
		want  string
	}{
		{TLS{}, "read certificate and key"},
		{TLS{Certificate: good.certificate, Key: good.certificate}, "read certificate and key"},
		{TLS{Certificate: good.certificate, Key: good.key, Required: true}, "no ClientCA"},
		{TLS{Certificate: good.certificate, Key: good.key, ClientCA: empty + ".not"}, "no such file"},
		{TLS{Certificate: good.certificate, Key: good.key, ClientCA: empty}, "has none in PEM"},
	} {
		if _, err := New(Options{TLS: &test.files}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v; want %q", test.files, err, test.want)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	own := newPair(t)
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	s := start(t, setting{options: Options{Upstreams: upstreams(server), TLS: &TLS{Certificate: own.certificate, Key: own.key}}})
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
