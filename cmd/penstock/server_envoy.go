package main

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/rules"
)

// openEnvoy makes what answers Envoy: by the rules, or by files of envoyproxy/ratelimit.
func (s *server) openEnvoy(ctx context.Context) error {
	limiter, err := s.newLimiter(ctx)
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
	})
	return err
}

func (s *server) newLimiter(ctx context.Context) (rls.Limiter, error) {
	secret, err := s.config.keySecret()
	if err != nil {
		return nil, err
	}
	options := envoyratelimit.LimiterOptions{Store: s.store.shared, Local: s.store.local, Secret: secret, Observe: s.observed}
	if s.config.Rules.Envoy == "" {
		overrides, err := envoyratelimit.NewLimiter(options)
		return &rls.Calls{Engine: s.decider, Overrides: overrides}, err
	}
	files, err := rules.NewFiles(s.config.Rules.Envoy)
	if err != nil {
		return nil, err
	}
	live, err := envoyratelimit.Follow(ctx, files, envoyratelimit.LiveOptions{
		Load:     envoyratelimit.Options{MergeDomains: s.config.Rules.MergeDomains},
		Interval: s.config.Rules.PollInterval, Changed: s.limitsChanged,
	})
	if err != nil {
		return nil, err
	}
	s.atEnd(live.Close)
	options.Config, options.Together = live.Load, s.config.Rules.Charge == "together"
	return envoyratelimit.NewLimiter(options)
}

// observed logs what was decided without the engine.
func (s *server) observed(c *penstock.Call, v *penstock.Verdict, err error) {
	s.observe(&engine.Observation{Call: c, Verdict: v, Err: err})
}

// limitsChanged tells what is new about the files of envoyproxy/ratelimit.
func (s *server) limitsChanged(status envoyratelimit.Status) {
	at := s.log.With("from", s.config.Rules.Envoy, "checksum", status.Checksum)
	if status.Err != nil {
		at.Error("new limits are refused, the old ones stay", "error", status.Err)
		return
	}
	at.Info("limits")
	for _, warning := range status.Warnings {
		at.Warn("limits: " + warning.String())
	}
}

// noRules is the origin of a node whose limits come from files of envoyproxy/ratelimit.
type noRules struct{ from string }

func (noRules) Read(context.Context) (*rules.Text, error) {
	return rules.NewText(0, time.Time{}, rules.File{Name: "none", Data: []byte("rules: []")}), nil
}

func (noRules) Watch(ctx context.Context, _ func(), _ func(error)) { <-ctx.Done() }

func (n noRules) String() string { return "envoyproxy/ratelimit in " + n.from }
