package main

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/health"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// rehearse makes the doors and opens none, for the mistakes that only they can tell: a certificate
// that is none, two upstreams for the same calls. It asks nobody over the network.
func rehearse(ctx context.Context, c *config) error {
	s := &server{config: c, log: slog.New(slog.DiscardHandler), health: health.NewServer()}
	defer s.Close()
	store, err := memstore.New(memstore.Options{MaxBytes: int64(c.Store.Memory.MaxBytes)})
	if err != nil {
		return err
	}
	s.atEnd(func() { store.Close() })
	none, _, err := rules.CompileFiles([]rules.File{{Data: []byte("rules: []")}}, rules.Options{})
	if err != nil {
		return err
	}
	if s.decider, err = engine.New(engine.Options{Store: store, Rules: engine.Fixed(none)}); err != nil {
		return err
	}
	_, redis := c.redisOptions()
	errs := []error{redis}
	if c.JWT.JWKSURL == "" {
		errs = append(errs, s.openTokens(ctx))
	}
	for _, make := range []func() (serve, error){s.newGateway, s.newAPI, s.newGRPC} {
		_, err := make()
		errs = append(errs, err)
	}
	_, err = c.Admin.TLS.load()
	return errors.Join(append(errs, err)...)
}
