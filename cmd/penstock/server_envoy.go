package main

import (
	"context"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/rls"
)

// openEnvoy makes what answers Envoy: by the rules, or by files of envoyproxy/ratelimit.
func (s *server) openEnvoy(context.Context) error {
	limiter, err := s.newLimiter()
	if err != nil {
		return err
	}
	reader, err := httplimit.NewReader(s.readerOptions())
	if err != nil {
		return err
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{Headers: s.config.Headers})
	if err != nil {
		return err
	}
	s.envoy, err = rls.New(rls.Options{
		Limiter: limiter, Decider: s.decider, Reader: reader, Writer: writer, Log: s.log.With("door", "envoy"),
		RequestMetadata: s.config.Envoy.Metadata, DenialBody: rls.Body(s.config.Envoy.Body), NoDenialHeaders: !s.config.Envoy.Headers,
	})
	return err
}

// newLimiter returns what answers descriptors: by the files, or by rules, except for limits that
// descriptors bring.
func (s *server) newLimiter() (rls.Limiter, error) {
	limiter, err := envoyratelimit.NewLimiter(envoyratelimit.LimiterOptions{
		Engine: s.decider, Rules: s.rules.live, Together: s.config.Rules.EnvoyOptions().Together,
	})
	if err != nil || s.config.Rules.Envoy != "" {
		return limiter, err
	}
	return &rls.Calls{Engine: s.decider, Overrides: limiter}, nil
}
