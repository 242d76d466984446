package server

import (
	"crypto/tls"
	"fmt"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/telemetry"
)

// certificates returns the certificates of a listener, or nil if it has none. It also adds them to the metrics.
func (s *Server) certificates(name string, t config.ServerTLS, protocols ...string) (*listener.Certificates, error) {
	if t.Certificate == "" {
		return nil, nil
	}
	c, err := listener.NewCertificates(listener.TLS{
		Certificate: t.Certificate, Key: t.Key, ClientCA: t.ClientCA, Required: t.Required, ClientNames: t.ClientNames, Protocols: protocols,
	}, s.log.With("listener", name))
	if err != nil {
		return nil, fmt.Errorf("%s.tls: %w", name, err)
	}
	if s.tls == nil {
		s.tls = map[string]*listener.Certificates{}
	}
	s.tls[name] = c
	return c, nil
}

// grpcTLS returns the TLS configuration of gRPC, or nil if TLS is off.
func (s *Server) grpcTLS() (*tls.Config, error) {
	c, err := s.certificates("grpc", s.config.GRPC.TLS, "h2")
	if c == nil {
		return nil, err
	}
	return c.Config(), nil
}

// certificateStates returns the state of certificates for the metrics, by listener.
func (s *Server) certificateStates() map[string]telemetry.Certificate {
	all := map[string]telemetry.Certificate{}
	for name, c := range s.tls {
		all[name] = c.Status()
	}
	return all
}
