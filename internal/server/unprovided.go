package server

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/rules"
)

// checkProvided returns an error that lists the attributes which rules read and which requests at the listeners of a
// configuration never have. Clients of the decision APIs may still send them.
func checkProvided(c *config.Config, s *rules.Snapshot) error {
	hasGateway := c.Listen.Gateway != ""
	hasTokens := c.JWT.JWKSURL != "" || c.JWT.JWKSFile != "" || c.JWT.Secret != "" || c.JWT.SecretFile != ""
	return s.CheckAttributes(penstock.DefaultDomain, func(name string, from *attribute.Source) error {
		switch {
		case from == nil:
		case from.JSON != "" && !hasGateway && c.Listen.HTTP == "":
			return fmt.Errorf("no listener reads bodies, so %s always has its default; set listen.gateway or listen.http", name)
		case from.Claim != "" && hasGateway && !hasTokens:
			return fmt.Errorf("no request at listen.gateway has %s, a claim of a verified token; set jwt.jwks_url", name)
		case from.Certificate != attribute.NoCertificate && hasGateway && c.Gateway.TLS.ClientCA == "":
			return fmt.Errorf("no request at listen.gateway has %s, a field of a client certificate; set gateway.tls.client_ca", name)
		}
		return nil
	})
}

// warnUnprovided logs what checkProvided finds.
func (s *Server) warnUnprovided() {
	if s.rules.live == nil {
		return // openRules calls it again
	}
	if joined, ok := checkProvided(s.config, s.rules.live.Load()).(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			s.log.Warn("rules: " + err.Error())
		}
	}
}
