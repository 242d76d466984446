package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// Config configures a stack. Rules or Origin is required.
type Config struct {
	Rules  string      // a file with rules, or a folder of such files
	Origin live.Origin // another source of rules, such as a database: see package stack/database

	// Entitlements are numbers of limits that rules take from a table, such as package stack/database reads. nil:
	// such limits have their defaults.
	Entitlements rules.Entitlements

	// LastGood is a file that keeps the last rules served, for a start while Origin is down. It belongs to
	// one process. "": rules are not kept.
	LastGood string

	// Redis holds the counters that nodes share. If it is the zero value, counters are in the memory of this
	// process. Other options without Addresses are an error.
	Redis  redisstore.Options
	Memory memstore.Options

	// Secret keys the hashes of keys. It must be the same on all nodes. With Redis it is required, with at least
	// 16 bytes: create one with openssl rand -hex 32.
	Secret string

	// Nodes is how many nodes share the limits, for rules that divide them while Redis is unavailable. With
	// 0, the stack learns it through Redis.
	Nodes int

	Log *slog.Logger // by default slog.Default

	// Observe sees every decision, and RuleFailed the rules whose conditions about a response could not be evaluated:
	// see [engine.Options]. RulesChanged is called when other rules are served,
	// or some are rejected. StoreObserver measures what is sent to Redis.
	Observe       func(*engine.Observation)
	RuleFailed    func(*rules.Snapshot, *engine.RuleFailure)
	RulesChanged  func(live.Status)
	StoreObserver breaker.Observer
}

// A Stack decides like a node of penstock serve. Pass it to httplimit.New and grpclimit.New.
type Stack struct {
	*engine.Engine
	store   *storestack.Stack
	live    *live.Rules
	members atomic.Pointer[membership.Members]
	blocks  *blocks.Set
	config  Config
	started time.Time

	closeBlocks func() // ends the connection to Redis; nil: there is none
}

var (
	_ penstock.Decider   = (*Stack)(nil)
	_ penstock.Concluder = (*Stack)(nil)
	_ attribute.Checker  = (*Stack)(nil)
)

// Open starts a stack. It fails if the configuration is invalid, with all its errors, or if there are no rules to
// decide by. It does not fail if Redis cannot be reached: until then the rules' on_store_error decides. The context
// bounds the start.
func Open(ctx context.Context, c Config) (_ *Stack, err error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("open the rate limiter: %w", err)
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Stack{config: c, started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the rate limiter: %w", err), s.Close())
		}
	}()
	for _, step := range []func(context.Context) error{s.openRules, s.openStore, s.openBlocks, s.openEngine, s.join} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Stack) openRules(ctx context.Context) (err error) {
	c := &s.config
	if c.Rules != "" {
		if c.Origin, err = live.NewFiles(c.Rules); err != nil {
			return err
		}
	}
	s.live, err = live.Follow(ctx, c.Origin, live.Options{
		Compile: rules.Options{Secret: c.Secret}, LastGood: c.LastGood, Changed: s.rulesChanged,
	})
	return err
}

// rulesChanged logs changes of the rules.
func (s *Stack) rulesChanged(now live.Status) {
	switch log := s.config.Log.With("origin", s.config.Origin.String()); {
	case now.Refused != nil:
		log.Error("new rules refused, keeping the old ones", "version", now.Refused.Version, "error", now.Refused.Err)
	case now.Err != nil:
		log.Error("cannot read the rules", "error", now.Err)
	default:
		log.Info("rules loaded", "version", now.Version, "checksum", now.Checksum)
	}
	if s.config.RulesChanged != nil {
		s.config.RulesChanged(now)
	}
}

func (s *Stack) openStore(context.Context) (err error) {
	c := &s.config
	o := storestack.Options{Memory: c.Memory, Observer: c.StoreObserver, Log: c.Log}
	if len(c.Redis.Addresses) > 0 {
		o.Redis = &c.Redis
	}
	s.store, err = storestack.Open(o)
	return err
}

func (s *Stack) openEngine(context.Context) (err error) {
	s.Engine, err = engine.New(engine.Options{
		Store: s.store.Shared, Local: s.store.Local, Nodes: s.nodes, Rules: s.live, Entitlements: s.config.Entitlements, Blocks: s.blocks.List(),
		Observe: s.config.Observe, Failed: s.config.RuleFailed,
	})
	return err
}

// nodes returns how many nodes share the limits, as far as known.
func (s *Stack) nodes() int {
	if s.config.Nodes != 0 {
		return s.config.Nodes
	}
	if m := s.members.Load(); m != nil {
		return m.Nodes()
	}
	return 1
}

// join announces this node to the others, and learns what they have reset.
func (s *Stack) join(context.Context) error {
	name := storestack.NodeName()
	members, err := s.store.Join(membership.Options{
		Failed: func(err error) { s.config.Log.Warn("the number of nodes", "error", err) },
		Self: func() membership.Node {
			now := s.live.Status()
			return membership.Node{
				Name: name, Version: "embedded", Started: s.started.Truncate(time.Second), Quality: membership.Exact,
				Rules: now.Version, Checksum: now.Checksum[:min(len(now.Checksum), shownChecksum)],
			}
		},
	}, s.Forget)
	if err == nil {
		s.members.Store(members)
	}
	return err
}

// shownChecksum is the length of the part of a checksum that a node announces: enough to distinguish rules.
const shownChecksum = 16

// Rules returns the rules that are served, and their status.
func (s *Stack) Rules() *live.Rules { return s.live }

// closeWithin is how long a stack that shuts down has to return leases, and to send Redis what was decided
// without it.
const closeWithin = time.Second

// Close returns leases, sends Redis what was decided without it, and stops everything. No request may be
// running.
func (s *Stack) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var errs []error
	if s.store != nil && s.store.Leases != nil {
		errs = append(errs, s.store.Leases.Return(ctx, 0))
	}
	if s.Engine != nil {
		errs = append(errs, s.Engine.Close(ctx))
	}
	if m := s.members.Load(); m != nil {
		m.Close()
	}
	if s.blocks != nil {
		s.blocks.Close()
	}
	if s.closeBlocks != nil {
		s.closeBlocks()
	}
	if s.store != nil {
		s.store.Close()
	}
	if s.live != nil {
		s.live.Close()
	}
	return errors.Join(errs...)
}
