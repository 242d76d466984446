package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Server returns the settings that a listener without client certificates needs.
func (t AdminTLS) Server() ServerTLS { return ServerTLS{Certificate: t.Certificate, Key: t.Key} }

// Load returns the TLS configuration, or nil if TLS is off.
func (t *ClientTLS) Load() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := ReadFile(t.CA, maxFile)
		if err != nil {
			return nil, fmt.Errorf("store.redis.tls.ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("store.redis.tls.ca: %s has no PEM certificate", t.CA)
		}
	}
	if t.Certificate != "" {
		own, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("store.redis.tls.certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
