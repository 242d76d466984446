// Package certtest makes certificates for tests.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	File string // PEM, with the CA certificate

	certificate *x509.Certificate
	key         crypto.Signer
}

// A Pair is a certificate and its key in PEM files.
type Pair struct {
	Certificate, Key string
	Serial           *big.Int
}

// NewAuthority makes a CA.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	a.certificate = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, a.key)
	WritePEM(t, a.File, "CERTIFICATE", a.certificate.Raw)
	return a
}

// Issue makes a certificate for servers and clients with these names: DNS names, addresses or URIs. The
// first is the common name.
func (a *Authority) Issue(t testing.TB, names ...string) Pair {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if u, err := url.Parse(name); err == nil && strings.Contains(name, "://") {
			template.URIs = append(template.URIs, u)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, dir := newKey(t), t.TempDir()
	signed := a.sign(t, template, a.certificate, key)
	p := Pair{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), Serial: signed.SerialNumber}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	WritePEM(t, p.Certificate, "CERTIFICATE", signed.Raw)
	WritePEM(t, p.Key, "PRIVATE KEY", der)
	return p
}

// Client returns what a client connects with that trusts the authority and shows the certificates.
func (a *Authority) Client(t testing.TB, shown ...Pair) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	c.RootCAs.AddCert(a.certificate)
	for _, p := range shown {
		certificate, err := tls.LoadX509KeyPair(p.Certificate, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = append(c.Certificates, certificate)
	}
	return c
}

// Replace puts the files of another pair in the place of those of this one, with a time that differs for sure.
func (p *Pair) Replace(t testing.TB, by Pair) {
	t.Helper()
	for from, to := range map[string]string{by.Key: p.Key, by.Certificate: p.Certificate} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		ReplaceFile(t, to, text)
	}
	p.Serial = by.Serial
}

// ReplaceFile puts a new file in the place of another, as tools that rotate certificates do.
func ReplaceFile(t testing.TB, name string, text []byte) {
	t.Helper()
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
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

// WritePEM writes a file with one block.
func WritePEM(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign signs a template for a key; without a parent it signs itself.
func (a *Authority) sign(t testing.TB, template, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
