package server

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/entitlement"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/xdsconfig"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// sample is the initial rules of a demo.
//
//go:embed sample.yaml
var sample []byte

// ruleSource is the rules and where they come from.
type ruleSource struct {
	live    *live.Rules
	origin  live.Origin
	compile rules.Options
	service *ruleservice.Service // nil: this node cannot change rules

	entitlements *entitlement.Entitlements // nil: this node has no rules database
}

// openRules follows the rules. If they are unavailable, it starts from the last good copy.
func (s *Server) openRules(ctx context.Context) error {
	if err := os.MkdirAll(s.config.DataDir, 0o750); err != nil {
		return fmt.Errorf("create data_dir: %w", err)
	}
	secret, err := s.config.OpenKeySecret()
	if err != nil {
		return err
	}
	follow := live.Options{Interval: s.config.Rules.PollInterval, LastGood: LastGoodFile(s.config), Changed: s.rulesChanged}
	if s.config.Rules.IsEnvoy() {
		follow.Read = s.config.Rules.Compiler()
	}
	s.rules = &ruleSource{compile: rules.Options{Secret: secret, MaxDelay: s.config.Gateway.MaxDelay}}
	if s.rules.origin, err = s.openOrigin(ctx); err != nil {
		return err
	}
	follow.Compile, follow.OriginName = s.rules.compile, OriginName(s.rules.origin)
	if source, ok := s.rules.origin.(*xdsconfig.Source); ok {
		follow.Considered, follow.Timeout = source.Considered, xdsWait+5*time.Second
	}
	if s.rules.live, err = live.Follow(ctx, s.rules.origin, follow); err != nil {
		return err
	}
	s.atEnd(s.rules.live.Close)
	s.warnUnprovided()
	return s.openEntitlements(ctx)
}

// LastGoodFile returns the file that keeps the rules served last, for a start while their origin is down. It is empty
// for the files of envoyproxy/ratelimit, which have no copy.
func LastGoodFile(c *config.Config) string {
	switch {
	case c.Rules.XDS.Server != "":
		return c.InDataDir("xds.last-good")
	case c.Rules.IsEnvoy():
		return ""
	}
	return c.InDataDir("rules.last-good")
}

// OriginName names an origin in the last good copy. A server is named by its kind only: its address and user may
// change, for example after a failover, and the rules are the same.
func OriginName(origin live.Origin) string {
	if _, ok := origin.(*xdsconfig.Source); ok {
		return "xDS"
	}
	kind, _, isServer := strings.Cut(origin.String(), "://")
	if isServer {
		return kind
	}
	return origin.String()
}

// openEntitlements follows the entitlements in the rules database. Other origins of rules have none: limits that need
// them have their defaults.
func (s *Server) openEntitlements(ctx context.Context) (err error) {
	origin, ok := s.rules.origin.(*ruledb.Origin)
	if !ok {
		s.checkEntitlements(s.log)
		return nil
	}
	if s.rules.entitlements, err = entitlement.Follow(ctx, origin, entitlement.Options{Changed: s.entitlementsChanged}); err != nil {
		return err
	}
	s.atEnd(s.rules.entitlements.Close)
	return nil
}

// entitlementsChanged logs whether entitlements can be read.
func (s *Server) entitlementsChanged(status entitlement.Status) {
	at := s.log.With("rows", status.Rows)
	switch {
	case status.Err == nil:
		at.Info("entitlements loaded", "change", status.Change)
	case status.Read.IsZero():
		at.Error("cannot read entitlements, limits that need them use their defaults", "error", status.Err)
	default:
		at.Error("cannot read entitlements, keeping those of the last read", "read_at", status.Read, "error", status.Err)
	}
}

// table returns the entitlements to decide by, or nil.
func (r *ruleSource) table() rules.Entitlements {
	if r.entitlements == nil {
		return nil
	}
	return r.entitlements
}

func (s *Server) openOrigin(ctx context.Context) (live.Origin, error) {
	switch r := &s.config.Rules; {
	case r.XDS.Server != "":
		return s.openXDS()
	case r.Envoy != "":
		return live.NewFiles(r.Envoy)
	case r.File != "":
		return live.NewFiles(r.File)
	case r.Redis:
		return s.openRuleRedis()
	default:
		return s.openDatabase(ctx, string(r.Database))
	}
}

// openDatabase opens the rules database. With Redis, it also publishes the rules there, for nodes without a
// database.
func (s *Server) openDatabase(ctx context.Context, source string) (live.Origin, error) {
	origin, err := ruledb.NewOrigin(source, ruledb.Options{})
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { origin.Close() })
	service := &ruleservice.Service{Database: origin, Compile: s.rules.compile}
	s.rules.service = service
	if s.config.HasRedis() {
		published, err := s.openRuleRedis()
		if err != nil {
			return nil, err
		}
		service.Publisher = published
		s.publish(service)
	}
	if s.config.Demo {
		if err := applySample(ctx, service); err != nil {
			return nil, err
		}
	}
	return origin, nil
}

func (s *Server) openRuleRedis() (*ruleredis.Rules, error) {
	options, err := s.config.Store.Redis.RuleOptions()
	if err != nil {
		return nil, err
	}
	published, err := ruleredis.New(options)
	if err != nil {
		return nil, err
	}
	s.atEnd(published.Close)
	return published, nil
}

// publish keeps the rules in Redis up to date with the database, until the server is closed.
func (s *Server) publish(service *ruleservice.Service) {
	forbidden := false // since rules were published last
	s.atEnd(inBackground(context.Background(), func(ctx context.Context) {
		service.Run(ctx, ruleservice.Run{Interval: s.config.Rules.PollInterval, Changed: func(err error) {
			log := s.log.With("to", service.Publisher.String()) // in JSON the value itself would show its password
			switch {
			case err == nil:
				log.Info("rules published to Redis")
			case errors.Is(err, ruleredis.ErrForbidden) && !forbidden:
				log.Info("rules not published to Redis: the Redis user lacks permission",
					"next", "nothing if every node reads the database; for nodes with rules.redis grant the rights in docs/reference/redis.md", "error", err)
			case errors.Is(err, ruleredis.ErrForbidden), errors.Is(err, live.ErrNoRules):
			default:
				log.Error("cannot publish rules to Redis", "error", err)
			}
			forbidden = errors.Is(err, ruleredis.ErrForbidden)
		}})
	}))
}

// applySample saves the sample rules if the database has never had any.
func applySample(ctx context.Context, service *ruleservice.Service) error {
	_, err := service.Database.Read(ctx)
	if !errors.Is(err, live.ErrNoRules) {
		return nil // an error is reported when the rules are followed
	}
	_, err = service.Apply(ctx, "sample.yaml", ruledb.Change{Author: "penstock", Message: "sample rules", Document: sample})
	if _, ok := errors.AsType[*ruledb.Conflict](err); ok {
		return nil // another process was first
	}
	return err
}

// checkEntitlements warns about rules that need entitlements on a node that has none.
func (s *Server) checkEntitlements(log *slog.Logger) {
	if _, ok := s.rules.origin.(*ruledb.Origin); ok || s.rules.live == nil {
		return
	}
	if n := len(s.rules.live.Load().EntitledLimits()); n > 0 {
		log.Warn("limits need entitlements, which only a node with rules.database has: they have their defaults", "limits", n)
	}
}

// rulesChanged logs what is new about the rules.
func (s *Server) rulesChanged(status live.Status) {
	at := s.log.With("version", status.Version, "checksum", status.Checksum)
	switch {
	case status.Refused != nil:
		at.Error("new rules refused, keeping the old ones", "refused_version", status.Refused.Version, "error", status.Refused.Err)
	case errors.Is(status.Err, live.ErrNoRules) && status.Checksum == "": // reported below
	case status.Err != nil:
		at.Error("cannot read rules, keeping the current ones", "from_copy", status.FromCopy, "error", status.Err)
	default:
		if s.filesLoaded.Add(1) > 1 {
			s.traffic.Mark(traffic.MarkRules, rulesText(status))
		}
		at.Info("rules loaded", "propagation_seconds", status.Propagation.Seconds())
		s.checkEntitlements(at)
		s.warnUnprovided()
	}
	if status.Empty {
		at.Warn("no rules: every request is allowed", "origin", s.rules.origin.String(), "next", s.nextWithoutRules())
	}
	if status.PushErr != nil {
		at.Warn("no notification of rule changes, polling only", "error", status.PushErr)
	}
	if status.CopyErr != nil {
		at.Warn("cannot save a copy of the rules for starts while their origin is down", "error", status.CopyErr)
	}
	if ignored := envoyratelimit.IgnoredFiles(s.config.Rules.Envoy); len(ignored) > 0 {
		at.Warn("files ignored: only *.yaml, *.yml and *.json in the directory itself are read", "directory", s.config.Rules.Envoy, "ignored", ignored)
	}
	for _, warning := range status.Warnings {
		at.Warn("rules: " + warning.String())
	}
}

// nextWithoutRules says how to add rules at their origin.
func (s *Server) nextWithoutRules() string {
	if r := &s.config.Rules; r.File != "" || r.IsEnvoy() {
		return "add rules there"
	}
	return "penstock rules apply rules.yaml, or create rules in the console"
}
