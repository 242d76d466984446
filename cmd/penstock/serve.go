package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-io/penstock/internal/console"
)

// configFlags are the keys that have a flag.
var configFlags = []struct{ flag, path, usage string }{
	{"listen-gateway", "listen.gateway", "`address` of the gateway; empty turns it off, as with the others"},
	{"listen-http", "listen.http", "`address` of the decision API and forward-auth"},
	{"listen-grpc", "listen.grpc", "`address` of the decision API over gRPC"},
	{"listen-admin", "listen.admin", "`address` of the console, the admin API, /metrics and /readyz"},
	{"upstream", "upstreams", "`URL` of the server behind the gateway"},
	{"redis", "store.redis.addresses", "`host:port` of Redis, several with commas"},
	{"rules", "rules.file", "rules in a `file` or a directory"},
	{"database", "rules.database", "rules in a `database`: sqlite:FILE or postgres://…; with a password, use --database-file"},
	{"database-file", "rules.database_file", "`file` that holds the value of --database"},
	{"data-dir", "data_dir", "`directory` of the SQLite database, the last good rules, the made secret"},
}

func newServeCommand(a *app) *cobra.Command {
	var file string
	var demo, traffic, check, connect bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway and the decision APIs",
		Long: `Run the gateway and the decision APIs.

Without any configuration it runs a demo on loopback: counters in memory, sample rules
in SQLite in the data directory, and a demo upstream behind the gateway.

Every key of the configuration file is also an environment variable, PENSTOCK_ and the
key: store.redis.timeout is PENSTOCK_STORE_REDIS_TIMEOUT. A flag beats the environment,
the environment beats the file. docs/configuration.md lists all keys.

SIGTERM and SIGINT let calls under way end; a second one ends the server at once.`,
		Example: `  penstock serve --demo
  penstock serve --demo --traffic                    # with callers, to see it work
  penstock serve --upstream http://127.0.0.1:3000 --rules rules.yaml
  penstock serve --config penstock.yaml
  penstock serve --config penstock.yaml --check      # would it start?
  penstock serve --config penstock.yaml --check --connect
  PENSTOCK_KEY_SECRET=… penstock serve --redis 127.0.0.1:6379 --database-file /run/secrets/database`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if connect && !check {
				return misused("--connect goes with --check")
			}
			conf, err := a.configure(file, demo, c.Flags())
			if err != nil {
				return no(err)
			}
			if conf.traffic = traffic; traffic {
				if err := conf.takesTraffic(); err != nil {
					return no(err)
				}
			}
			if check {
				a.warn(conf.warnings...)
				if err := a.rehearse(c.Context(), conf, connect); err != nil {
					return no(err)
				}
				return nil
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the next signal is not caught
			return a.serve(ctx, conf)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().BoolVar(&demo, "demo", false, "a demo upstream behind the gateway, and sample rules if there are none")
	c.Flags().BoolVar(&traffic, "traffic", false, "with --demo: calls of made-up callers from the start; the console turns them on and off")
	c.Flags().BoolVar(&check, "check", false, "check everything that a start checks (configuration, rules, certificates, secrets, data_dir) except that ports are free, and exit")
	c.Flags().BoolVar(&connect, "connect", false, "with --check: also connect to Redis, the rules database, the JWKS URL and the upstreams")
	addConfigFlags(c.Flags())
	return c
}

func addConfigFlags(flags *pflag.FlagSet) {
	for _, f := range configFlags {
		flags.String(f.flag, "", f.usage)
	}
}

// configure puts the configuration together.
func (a *app) configure(file string, demo bool, flags *pflag.FlagSet) (*config, error) {
	l := a.load(file, demo, flags)
	return l.config, l.check()
}

// load reads the configuration. What is wrong is for check to tell.
func (a *app) load(file string, demo bool, flags *pflag.FlagSet) *loader {
	var all []given
	for _, f := range configFlags {
		flag := flags.Lookup(f.flag)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		if f.flag == "upstream" {
			value = fmt.Sprintf("[{url: %q}]", value)
		}
		all = append(all, given{"--" + f.flag, f.path, value})
	}
	if file == "" {
		file = a.getenv("PENSTOCK_CONFIG")
	}
	l := loadConfig(file, a.env, all)
	l.errs = append(l.errs, unknownVariables(a.env)...)
	c := l.config
	unconfigured := file == "" && len(c.Upstreams) == 0 && c.Rules.File == "" && c.Rules.Database == "" && !c.Rules.Redis
	c.demo = demo || unconfigured
	if c.demo && l.origin["listen.gateway"] == "" {
		c.Listen.Gateway = "127.0.0.1:8080" // a demo is for this machine
	}
	return l
}

// takesTraffic tells why there can be no demo traffic.
func (c *config) takesTraffic() error {
	switch {
	case !c.demo || len(c.Upstreams) > 0:
		return errors.New("--traffic goes with --demo and without upstreams: made-up callers call nothing but the demo upstream")
	case c.Listen.Gateway == "":
		return errors.New("--traffic needs the gateway: listen.gateway is empty")
	case c.Gateway.TLS.Certificate != "":
		return errors.New("--traffic needs a gateway without TLS: made-up callers have no certificates")
	}
	return nil
}

// serve runs a server until the context ends.
func (a *app) serve(ctx context.Context, c *config) error {
	log := a.newLog(c)
	for _, warning := range c.warnings {
		log.Warn("insecure setting", "detail", warning)
	}
	s, err := newServer(ctx, c, log)
	if err != nil {
		return err
	}
	defer s.Close()
	s.greet(a.stdout)
	err = s.Run(ctx)
	log.Info("stopped")
	return err
}

func (a *app) newLog(c *config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // one of those it knows
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" || c.Log.Format == "auto" && !a.terminal {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// greet says where everything is, and how to see it work.
func (s *server) greet(w io.Writer) {
	kind := "memory"
	if s.config.redis() {
		kind = "redis " + strings.Join(s.config.Store.Redis.Addresses, ",")
	}
	fmt.Fprintf(w, "penstock %s\n  store    %s\n  rules    %s (%s)\n", thisBuild().Version, kind, s.rules.origin, counted(len(s.rules.live.Load().Rules), "rule"))
	for _, d := range s.doors {
		address := d.address()
		switch {
		case d.name == "grpc":
		case d.name == "gateway" && s.config.Gateway.TLS.Certificate != "":
			address = "https://" + address
		default:
			address = "http://" + address
		}
		fmt.Fprintf(w, "  %-8s %s\n", d.name, address)
	}
	if s.probes != nil {
		fmt.Fprintf(w, "  health   http://%s\n", s.probes.address())
	}
	if s.admin != nil {
		scheme := "http"
		if s.config.Admin.TLS.Certificate != "" {
			scheme = "https"
		}
		fmt.Fprintf(w, "  admin    %s://%s\n", scheme, s.admin.address())
		switch {
		case s.newToken:
			fmt.Fprintf(w, "  token    %s (shown once, kept in %s)\n", s.token, s.config.adminTokenFile())
		case s.config.Admin.Token == "":
			fmt.Fprintf(w, "  token    in %s\n", s.config.adminTokenFile())
		}
		if console.Built() {
			fmt.Fprintf(w, "\nThe console is at %s://%s: log in with the token.\n", scheme, s.admin.address())
		}
	}
	if gateway := s.door("gateway"); gateway != nil && s.config.demo && s.config.Rules.Database != "" {
		fmt.Fprintf(w, "\nThe sample rules let each address ask for / 10 times a minute. The last answer here is a 429:\n\n"+
			"  for i in $(seq 11); do curl -s -o /dev/null -w '%%{http_code}\\n' http://%s/; done\n\n", gateway.address())
	}
	switch {
	case s.demo == nil:
	case s.config.traffic:
		fmt.Fprintf(w, "Made-up callers call it, up to %d times a second. The console turns them off.\n\n", demoRate)
	default:
		fmt.Fprintf(w, "For traffic to look at, press “Send demo traffic” in the console, or start it with callers:\n\n  %s serve --demo --traffic\n\n", os.Args[0])
	}
}
