package listener

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/certtest"
)

// A testListener serves TLS connections with files.
type testListener struct {
	*Certificates
	t       *testing.T
	address string
}

func serve(t *testing.T, files TLS) *testListener {
	t.Helper()
	c, err := NewCertificates(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.interval = 0 // check for every client
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello") // the client notices if not
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
	})
	return &testListener{c, t, l.Addr().String()}
}

// connect returns the certificate the server presents, or why it refuses the client.
func (s *testListener) connect(as *tls.Config) (*tls.ConnectionState, error) {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.address, as)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil { // with TLS 1.3 a refusal comes after the client's handshake
		return nil, err
	}
	state := conn.ConnectionState()
	return &state, nil
}

func TestCertificateIsReadAgain(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, next := ca.Issue(t, "localhost"), ca.Issue(t, "localhost")
	s := serve(t, TLS{Certificate: pair.Certificate, Key: pair.Key})
	shows := func(want certtest.Pair, status Status) {
		t.Helper()
		state, err := s.connect(ca.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		if state.PeerCertificates[0].SerialNumber.Cmp(want.Serial) != 0 {
			t.Error("the server shows another certificate")
		}
		leaf := state.PeerCertificates[0]
		status.NotBefore, status.NotAfter = leaf.NotBefore, leaf.NotAfter
		if got := s.Status(); got != status {
			t.Errorf("status %+v, want %+v", got, status)
		}
	}
	shows(pair, Status{})
	first := pair
	certtest.ReplaceFile(t, pair.Certificate, []byte("not a certificate"))
	if got := s.Status().Refusals; got != 1 {
		t.Errorf("%d refusals before a client comes, want 1", got)
	}
	shows(first, Status{Refusals: 1})
	pair.Replace(t, next)
	shows(next, Status{Refusals: 1, Reloads: 1})
	if err := os.Remove(pair.Key); err != nil {
		t.Fatal(err)
	}
	shows(next, Status{Refusals: 2, Reloads: 1})
}

func TestClientCertificates(t *testing.T) {
	ca, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	own := ca.Issue(t, "localhost")
	envoy, mesh, stranger := ca.Issue(t, "envoy.example"), ca.Issue(t, "spiffe://mesh/envoy"), other.Issue(t, "envoy.example")
	files := TLS{Certificate: own.Certificate, Key: own.Key, ClientCA: ca.File}
	required := files
	required.Required = true
	named := required
	named.ClientNames = []string{"envoy.example", "spiffe://mesh/envoy"}
	one := required
	one.ClientNames = []string{"envoy.example"}
	for _, test := range []struct {
		by     TLS
		shown  []certtest.Pair
		passes bool
	}{
		{files, nil, true}, {files, []certtest.Pair{envoy}, true}, {files, []certtest.Pair{stranger}, false},
		{required, nil, false}, {required, []certtest.Pair{envoy}, true}, {required, []certtest.Pair{stranger}, false},
		{named, []certtest.Pair{envoy}, true}, {named, []certtest.Pair{mesh}, true}, {named, []certtest.Pair{own}, false}, {named, nil, false},
		{one, []certtest.Pair{envoy}, true}, {one, []certtest.Pair{mesh}, false},
	} {
		if _, err := serve(t, test.by).connect(ca.Client(t, test.shown...)); (err == nil) != test.passes {
			t.Errorf("required %t, names %v, shown %v: %v", test.by.Required, test.by.ClientNames, test.shown, err)
		}
	}
}

// A client of a CA that is no longer trusted cannot resume an earlier session.
func TestRemovedAuthority(t *testing.T) {
	ca, old, next := certtest.NewAuthority(t), certtest.NewAuthority(t), certtest.NewAuthority(t)
	own, client := ca.Issue(t, "localhost"), old.Issue(t, "envoy")
	s := serve(t, TLS{Certificate: own.Certificate, Key: own.Key, ClientCA: old.File, Required: true})
	as := ca.Client(t, client)
	as.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		if state, err := s.connect(as); err != nil || state.DidResume {
			t.Fatalf("resumed or refused: %v", err)
		}
	}
	text, err := os.ReadFile(next.File)
	if err != nil {
		t.Fatal(err)
	}
	certtest.ReplaceFile(t, old.File, text)
	if _, err := s.connect(as); err == nil {
		t.Error("a client of the old CA is let in")
	}
}

func TestTLSMistakes(t *testing.T) {
	good := certtest.NewAuthority(t).Issue(t, "localhost")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		files TLS
		want  string
	}{
		{TLS{}, "read certificate"},
		{TLS{Certificate: good.Certificate, Key: good.Certificate}, "read certificate"},
		{TLS{Certificate: good.Certificate, Key: good.Key, Required: true}, "no client CA"},
		{TLS{Certificate: good.Certificate, Key: good.Key, ClientNames: []string{"a"}}, "client names"},
		{TLS{Certificate: good.Certificate, Key: good.Key, ClientCA: empty + ".not"}, "no such file"},
		{TLS{Certificate: good.Certificate, Key: good.Key, ClientCA: empty}, "has none in PEM"},
	} {
		if _, err := NewCertificates(test.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v; want %q", test.files, err, test.want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "sock") // a path of t.TempDir may be too long
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	open := func() (net.Listener, error) { return Listen("unix://"+path, "0620") }

	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o620 {
		t.Errorf("mode %v, %v; want 0620", info.Mode(), err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second listener: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // like a process that is killed
	first.Close()
	second, err := open()
	if err != nil {
		t.Fatalf("after a killed process: %v", err)
	}
	second.Close()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("in the place of a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "data" {
		t.Error("the file is gone")
	}
	for _, bad := range []string{"unix://relative", "unix:///" + strings.Repeat("p", 103), "unix://"} {
		if _, err := Listen(bad, "0600"); err == nil {
			t.Errorf("%s is opened", bad)
		}
	}
}

func TestParseMode(t *testing.T) {
	for text, want := range map[string]os.FileMode{"0660": 0o660, "600": 0o600, "0777": 0o777, "0": 0} {
		if got, err := ParseMode(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "1777", "0888", "rw", "-1"} {
		if _, err := ParseMode(bad); err == nil {
			t.Errorf("%q is a mode", bad)
		}
	}
}

// A certificate that clients would refuse does not replace one that they accept.
func TestWorseCertificates(t *testing.T) {
	now := time.Now()
	valid := x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{"a.example", "*.b.example"}, IPAddresses: []net.IP{{127, 0, 0, 1}}}
	changed := func(change func(*x509.Certificate)) *x509.Certificate {
		c := valid
		change(&c)
		return &c
	}
	expired := changed(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	early := changed(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) })
	for name, c := range map[string]struct {
		next, current *x509.Certificate
		says          string
	}{
		"the same":            {&valid, &valid, ""},
		"expired":             {expired, &valid, "expired"},
		"not valid yet":       {early, &valid, "not valid before"},
		"valid after expired": {&valid, expired, ""},
		"both expired":        {expired, expired, ""},
		"more names":          {changed(func(c *x509.Certificate) { c.DNSNames = append([]string{"c.example"}, valid.DNSNames...) }), &valid, ""},
		"a wildcard instead":  {changed(func(c *x509.Certificate) { c.DNSNames = []string{"*.example", "*.b.example"} }), &valid, ""},
		"other names":         {changed(func(c *x509.Certificate) { c.DNSNames = []string{"c.example"} }), &valid, "a.example, *.b.example"},
		"no address":          {changed(func(c *x509.Certificate) { c.IPAddresses = nil }), &valid, "127.0.0.1"},
	} {
		if err := worse(c.next, c.current, now); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Names that are missing in new files are refused, and told.
func TestCertificateOfAnotherName(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair, other := ca.Issue(t, "localhost"), ca.Issue(t, "other.example")
	s := serve(t, TLS{Certificate: pair.Certificate, Key: pair.Key})
	certtest.ReplaceFile(t, pair.Key, read(t, other.Key))
	certtest.ReplaceFile(t, pair.Certificate, read(t, other.Certificate))
	if state, err := s.connect(ca.Client(t)); err != nil || state.PeerCertificates[0].SerialNumber.Cmp(pair.Serial) != 0 {
		t.Errorf("error %v", err)
	}
	if got := s.Status(); got.Refusals == 0 || got.Reloads != 0 {
		t.Errorf("%+v", got)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
