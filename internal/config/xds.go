package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/xdsconfig"
	"github.com/penstock-io/penstock/rules"
)

// IsEnvoy reports whether limits are those of envoyproxy/ratelimit, from files or a management server.
func (r *Rules) IsEnvoy() bool { return r.Envoy != "" || r.XDS.Server != "" }

// Compiler returns the function that compiles the rules, or nil for native rules.
func (r *Rules) Compiler() func([]rules.File, rules.Options) (*rules.Snapshot, rules.Problems, error) {
	switch {
	case r.XDS.Server != "":
		return xdsconfig.Compile(r.EnvoyOptions())
	case r.Envoy != "":
		return r.EnvoyOptions().Compile
	}
	return nil
}

// Options returns the options for the connection to the server.
func (x *XDS) Options() xdsconfig.Options {
	o := xdsconfig.Options{
		Server: x.Server, NodeID: x.NodeID, MaxBytes: int(x.MaxBytes), StartEmpty: x.Empty,
		Metadata: map[string]string{}, Headers: map[string]string{},
	}
	for _, pair := range x.Metadata {
		name, value, _ := strings.Cut(pair, "=")
		o.Metadata[name] = value
	}
	for _, pair := range x.Headers {
		name, value, _ := strings.Cut(string(pair), "=")
		o.Headers[name] = value
	}
	if x.TLS.Enabled {
		o.TLS = x.loadTLS
	}
	return o
}

func (x *XDS) loadTLS() (*tls.Config, error) {
	roots, err := listener.ReadRoots(x.TLS.CA)
	if err != nil {
		return nil, fmt.Errorf("rules.xds.tls.ca: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: x.TLS.ServerName}
	if x.TLS.Certificate != "" {
		own, err := tls.LoadX509KeyPair(x.TLS.Certificate, x.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("rules.xds.tls.certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// checkXDS checks the connection to the management server.
func (l *loader) checkXDS() {
	x := &l.config.Rules.XDS
	if x.Server == "" {
		return
	}
	if _, _, err := net.SplitHostPort(x.Server); err != nil {
		l.reportUnusable("rules.xds.server", "invalid address %.128q, for example envoy-gateway:18001", x.Server)
	}
	for _, pair := range x.Metadata {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			l.reportUnusable("rules.xds.node_metadata", "%.64q is not name=value", pair)
		}
	}
	for i, pair := range x.Headers {
		if name, value, ok := strings.Cut(string(pair), "="); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			l.reportUnusable("rules.xds.headers", "number %d is not name=value with the name and value of a header", i+1) // does not quote the header, which may be a secret
		}
	}
	if x.MaxBytes < 1<<10 || x.MaxBytes > 1<<30 {
		l.reportUnusable("rules.xds.max_bytes", "%v is not from 1KiB to 1GiB", x.MaxBytes)
	}
	if (x.TLS.Certificate == "") != (x.TLS.Key == "") {
		l.reportUnusable("rules.xds.tls", "certificate and key must be set together")
	}
	if x.TLS.Enabled {
		if _, err := x.loadTLS(); err != nil {
			l.note(l.origin["rules.xds.server"], "", "%w", err)
		}
	}
}
