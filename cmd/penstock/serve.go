package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/doctor"
	"github.com/penstock-io/penstock/internal/server"
)

func newServeCommand(a *app) *cobra.Command {
	var file string
	var demo, traffic, check, connect, envoyEnv bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway and the decision APIs",
		Long: `Run the gateway and the decision APIs.

Without any configuration it runs a demo on loopback: counters in memory, sample rules
in SQLite in the data directory, and a demo upstream behind the gateway.

Every key of the configuration file is also an environment variable: store.redis.timeout
is PENSTOCK_STORE_REDIS_TIMEOUT. Flags override the environment, and the environment
overrides the file. docs/reference/configuration.md lists all keys.

SIGTERM and SIGINT drain requests in flight; a second signal stops the server immediately.
SIGHUP reloads the rules. Under systemd the server reports when it is ready.`,
		Example: `  penstock serve --demo
  penstock serve --demo --traffic                    # with simulated clients
  penstock serve --upstream http://127.0.0.1:3000 --rules rules.yaml
  penstock serve --config penstock.yaml
  penstock serve --config penstock.yaml --check      # check without starting
  penstock serve --config penstock.yaml --check --connect
  PENSTOCK_KEY_SECRET=… penstock serve --redis 127.0.0.1:6379 --database-file /run/secrets/database`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if connect && !check {
				return misused("--connect goes with --check")
			}
			conf, err := config.Load(config.Sources{File: file, Env: a.env, Flags: config.Flags(c.Flags()), Demo: demo, EnvoyEnv: envoyEnv})
			if err != nil && check && a.json() {
				return a.writeRehearsal(conf.Warnings, nil, err)
			}
			if err != nil {
				return exitWithNo(err)
			}
			if conf.Traffic = traffic; traffic {
				if err := conf.CheckTraffic(); err != nil {
					return exitWithNo(err)
				}
			}
			if check {
				conf.Warnings = append(conf.Warnings, conf.Ignored...)
				return a.rehearse(c.Context(), conf, connect)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the next signal ends the process
			return a.serve(ctx, conf)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().BoolVar(&demo, "demo", false, "start a demo upstream behind the gateway, and add sample rules if there are none")
	c.Flags().BoolVar(&traffic, "traffic", false, "with --demo: send requests from simulated clients; the console can turn them on and off")
	c.Flags().BoolVar(&check, "check", false, "check everything that startup checks (configuration, rules, certificates, secrets, data_dir) except whether ports are free, and exit")
	c.Flags().BoolVar(&connect, "connect", false, "with --check: also connect to Redis, the rules database, the JWKS URL and the upstreams")
	c.Flags().BoolVar(&envoyEnv, "envoy-ratelimit-env", false, "also read the environment variables of envoyproxy/ratelimit; docs/how-to/envoy-migrate.md")
	config.AddFlags(c.Flags())
	return c
}

// serve runs a server until the context ends.
func (a *app) serve(ctx context.Context, c *config.Config) error {
	log := a.newLog(c)
	for _, warning := range c.Warnings {
		log.Warn("insecure setting", "detail", warning)
	}
	for _, ignored := range c.Ignored {
		log.Warn("environment variable ignored", "detail", ignored)
	}
	for _, name := range a.ignored {
		log.Warn("flag ignored, as by envoyproxy/ratelimit", "flag", name)
	}
	s, err := server.New(ctx, server.Options{Config: c, Log: log, Build: buildinfo.Read()})
	if err != nil {
		return err
	}
	defer s.Close()
	s.Greet(a.stdout)
	defer s.Supervise(ctx, a.getenv)()
	err = s.Run(ctx)
	log.Info("stopped")
	return err
}

func (a *app) newLog(c *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // cannot fail: the configuration is checked
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" || c.Log.Format == "auto" && !a.terminal {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// rehearse prints whether a server would start.
func (a *app) rehearse(ctx context.Context, c *config.Config, connect bool) error {
	found, err := doctor.Rehearse(ctx, c, connect)
	if a.json() {
		return a.writeRehearsal(append(c.Warnings, found.Warnings...), found, err)
	}
	a.warn(c.Warnings...)
	a.warn(found.Warnings...)
	if err != nil {
		return exitWithNo(err)
	}
	fmt.Fprintf(a.stderr, "ok: %s\n", found.Summary)
	for i := range found.Certificates {
		fmt.Fprintf(a.stderr, "certificate of %s %s\n", found.Certificates[i].Listener, found.Certificates[i].Text(time.Now()))
	}
	if len(found.Unchecked) > 0 {
		fmt.Fprintf(a.stderr, "not checked without --connect: %s\n", strings.Join(found.Unchecked, ", "))
	}
	return nil
}

// writeRehearsal writes a rehearsal as JSON.
func (a *app) writeRehearsal(warnings []string, found *doctor.Rehearsal, err error) error {
	told := struct {
		OK        bool     `json:"ok"`
		Errors    []string `json:"errors,omitempty"`
		Warnings  []string `json:"warnings,omitempty"`
		Checked   string   `json:"checked,omitempty"`
		Unchecked []string `json:"unchecked,omitempty"` // what only --connect checks

		Certificates []admin.CertificateStatus `json:"certificates,omitempty"`
	}{OK: err == nil, Warnings: warnings}
	if found != nil {
		told.Checked, told.Unchecked, told.Certificates = found.Summary, found.Unchecked, found.Certificates
	}
	for _, one := range flatten(err) {
		told.Errors = append(told.Errors, one.Error())
	}
	if err := a.writeJSON(told); err != nil {
		return err
	}
	return exitWith(told.OK)
}

// flatten returns the errors that were joined.
func flatten(err error) []error {
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	return joined.Unwrap()
}
