package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/penstock-io/penstock/internal/admin"
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

// certificateStatuses returns how long certificates are valid, for operators.
func (s *Server) certificateStatuses() (all []admin.CertificateStatus) {
	for _, name := range slices.Sorted(maps.Keys(s.tls)) {
		c := s.tls[name].Status()
		all = append(all, admin.CertificateStatus{Listener: name, NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(), Refusals: c.Refusals})
	}
	return all
}

// Certificates reads the certificates that a server with the configuration would use, and returns how long they are
// valid. It returns those that it can read, and the errors of the others.
func Certificates(c *config.Config) ([]admin.CertificateStatus, error) {
	s := &Server{config: c, log: slog.New(slog.DiscardHandler)}
	var errs []error
	for _, l := range []struct {
		name, address string
		tls           config.ServerTLS
	}{{"gateway", c.Listen.Gateway, c.Gateway.TLS}, {"grpc", c.Listen.GRPC, c.GRPC.TLS}, {"admin", c.Listen.Admin, c.Admin.TLS.Server()}} {
		if l.address == "" {
			continue
		}
		_, err := s.certificates(l.name, l.tls)
		errs = append(errs, err)
	}
	return s.certificateStatuses(), errors.Join(errs...)
}
