package server

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/health"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Rehearse sets up the handler of each listener to find errors that nothing else reports: an invalid certificate,
// two upstreams for the same requests.
func Rehearse(ctx context.Context, c *config.Config, snapshot *rules.Snapshot, connect bool) error {
	s := &Server{config: c, log: slog.New(slog.DiscardHandler), health: health.NewServer()}
	defer s.Close()
	store, err := memstore.New(memstore.Options{MaxBytes: int64(c.Store.Memory.MaxBytes)})
	if err != nil {
		return err
	}
	s.atEnd(func() { store.Close() })
	if snapshot == nil {
		if snapshot, _, err = rules.CompileFiles([]rules.File{{Data: []byte("rules: []")}}, rules.Options{}); err != nil {
			return err
		}
	}
	decides, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot)})
	if err != nil {
		return err
	}
	s.decider = &telemetry.Decider{Engine: decides} // without metrics: nothing is decided here
	var errs []error
	if c.HasRedis() {
		redis, err := c.Store.Redis.Options()
		if err == nil {
			err = redis.Validate()
		}
		errs = append(errs, err)
	}
	if c.JWT.JWKSURL == "" || connect {
		errs = append(errs, s.openTokens(ctx))
	}
	errs = append(errs, s.eachServe(func(string, serve) {}))
	_, err = s.certificates("admin", c.Admin.TLS.Server())
	return errors.Join(append(errs, err)...)
}
