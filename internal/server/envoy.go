package server

import (
	"context"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/rls"
)

// openEnvoy opens the Envoy rate limit service, which decides by the rules or by files of envoyproxy/ratelimit.
func (s *Server) openEnvoy(context.Context) error {
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
	e := &s.config.Envoy
	s.envoy, err = rls.New(rls.Options{
		Limiter: limiter, Decider: s.decider, Reader: reader, Writer: writer, Log: s.log.With("listener", "envoy"),
		RequestMetadata: e.Metadata, NoMetadata: !e.Remarks, DenialBody: rls.Body(e.Body), NoDenialHeaders: !e.Headers,
		LimitHeaders: headerNames(&e.LimitHeaders), Shadow: e.Shadow, NegativeHits: e.NegativeHits, RequestIDKey: e.RequestID,
	})
	return err
}

// headerNames returns the names of the headers, or nil if they are off.
func headerNames(h *config.LimitHeaders) *rls.LimitHeaders {
	if !h.Enabled {
		return nil
	}
	return &rls.LimitHeaders{Limit: h.Limit, Remaining: h.Remaining, Reset: h.Reset}
}

// newLimiter returns the limiter for descriptors. It decides by the files or by rules, except for limits that
// descriptors bring.
func (s *Server) newLimiter() (rls.Limiter, error) {
	perSecond, err := s.openPerSecond()
	if err != nil {
		return nil, err
	}
	limiter, err := envoyratelimit.NewLimiter(envoyratelimit.LimiterOptions{
		Engine: s.decider, PerSecond: perSecond, Rules: s.rules.live, Together: s.config.Rules.EnvoyOptions().Together,
		UnlessOver: s.config.Rules.Charge == "unless_over", Quota: s.config.Envoy.Quota && s.config.Rules.IsEnvoy(),
		Stats: s.newStats(),
	})
	if err != nil || s.config.Rules.IsEnvoy() {
		return limiter, err
	}
	return &rls.RuleLimiter{Engine: s.decider, Overrides: limiter}, nil
}
