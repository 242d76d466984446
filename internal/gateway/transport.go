package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// newTransport returns the connections to the servers of an upstream.
func (g *Gateway) newTransport(u *Upstream, h2c bool) (*http.Transport, error) {
	roots, err := readRoots(u.RootCAs)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: g.timeouts.Dial, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    g.timeouts.Dial,
		ResponseHeaderTimeout:  defaulted(u.ResponseHeader, g.timeouts.ResponseHeader),
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        60 * time.Second,
		MaxIdleConnsPerHost:    1024, // as many as were needed at a time stay for the next
		MaxConnsPerHost:        g.limits.MaxUpstream,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // encodings are between client and server
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second},
	}
	t.Protocols.SetHTTP1(!h2c)
	t.Protocols.SetHTTP2(!h2c)
	t.Protocols.SetUnencryptedHTTP2(h2c)
	return t, nil
}

// readRoots reads the certificates to verify with; nil are the system's.
func readRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA certificates: %s has none in PEM", file)
	}
	return pool, nil
}
