package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/internal/simulate"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
	"github.com/penstock-io/penstock/storage"
)

// Options are the parts of a node that the API reads and changes.
type Options struct {
	Token       string // for the first start and for emergencies: its role is Administrator
	ViewerToken string // for viewers, who can only read; "": there are none
	Hosts       webguard.Hosts

	Status func() Status
	Nodes  func() []membership.KnownNode // nodes that share the limits, this one first
	Ready  func() error                  // why no requests should be sent to this node; nil: it is ready

	// People opens the database with users and API tokens; nil: that of the rules, if there is one.
	People func(context.Context) (*ruledb.DB, error)

	Rules        Rules
	Store        Store
	Entitlements rules.Entitlements // that the node decides by; nil: none

	Local   penstock.Store // counts while Store is unavailable; nil: none
	Blocks  *blocks.Set    // keys that operators have blocked
	Forget  Forget         // drops what else this node holds about a key; nil: nothing
	Traffic *traffic.Traffic
	Fleet   *fleet.Fleet // the traffic of all nodes; nil: of this one only
	Metrics http.Handler // nil: none
	Demo    Demo         // nil: not a demo

	// Scratch returns an empty in-memory store, for limiting logins and for trying out rules.
	Scratch func() (Scratch, error)

	// ToolStore returns an empty in-memory store of at most maxBytes for a tool, such as a backtest.
	ToolStore func(maxBytes int64) (ToolStore, error)

	// Console serves all paths outside the API; nil: not found. It needs no token, so it must not reveal anything.
	Console http.Handler

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // for tests; nil: time.Now
}

// Rules are the rules of a node and their origin.
type Rules struct {
	Live   Live
	Origin live.Origin
	Kind   Kind

	// Service changes the rules; nil: they are read-only here.
	Service *ruleservice.Service

	Compile rules.Options // as the node compiles them
}

// Live is the rules that a node serves: a *[live.Rules].
type Live interface {
	Load() *rules.Snapshot
	Status() live.Status
}

// A Kind is the origin of rules.
type Kind string

const (
	Database Kind = "database"
	Files    Kind = "files"
	Redis    Kind = "redis"           // published by a node that has the database
	Envoy    Kind = "envoy_ratelimit" // limits in the format of envoyproxy/ratelimit, from files or a management server
)

// A Store is a store that can be inspected and operated.
type Store interface {
	penstock.Store
	storage.Banner
	storage.Resetter
	storage.Inspector
	storage.Lister
}

// A Forget drops what a node holds about a key from before an instant, or only its ban.
type Forget func(s storage.Subject, onlyBan bool, before penstock.Instant)

// A Scratch is a temporary store.
type Scratch = replay.Store

// A ToolStore is a temporary store of bounded size for a tool that replays or simulates requests.
type ToolStore interface {
	simulate.Store
	Bytes() int64
	Full() bool // counters were shared or refused for lack of room, so that decisions are not exact
}

// An Admin is the admin API, and the handler of its whole listener.
type Admin struct {
	Options
	handler       http.Handler
	access        *access
	people        *directory
	sessions      *sessions
	logins        *logins
	veil          *masker
	reveals       *revealLog
	turns         *workSlots // for expensive work
	tools         *toolSlot
	profiling     chan struct{} // taken while a profile is
	profileSecond time.Duration // a second, except in tests
	baselines     baselines
	beat          time.Duration // between two heartbeats of a stream
	toolTime      time.Duration // how long a tool may run

	overviews, tails streamSlots // open streams
	lookEvery        time.Duration

	draining context.Context
	drain    context.CancelFunc
}

// New returns the API. Close must be called when it is no longer needed.
func New(o Options) (*Admin, error) {
	var errs []error
	need := func(missing bool, what string) {
		if missing {
			errs = append(errs, errors.New("it needs "+what))
		}
	}
	if o.Forget == nil {
		o.Forget = func(storage.Subject, bool, penstock.Instant) {}
	}
	need(o.Token == "", "a token")
	need(o.Token != "" && o.Token == o.ViewerToken, "two tokens that differ")
	need(o.Status == nil || o.Ready == nil || o.Nodes == nil, "a status")
	need(o.Rules.Live == nil || o.Rules.Origin == nil, "rules")
	need(o.Store == nil || o.Scratch == nil || o.ToolStore == nil, "stores")
	need(o.Traffic == nil, "traffic")
	need(o.Blocks == nil, "blocks")
	if len(errs) > 0 {
		return nil, fmt.Errorf("new admin API: %w: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Fleet == nil {
		o.Fleet = fleet.New(fleet.Options{Traffic: o.Traffic, Members: func() []membership.KnownNode { return o.Nodes()[:1] }})
	}
	veil := newMasker(o.Rules.Compile.Secret)
	logins, err := newLogins(o, newRefusals(&o, veil))
	if err != nil {
		return nil, fmt.Errorf("new admin API: %w", err)
	}
	a := &Admin{Options: o, veil: veil, logins: logins, turns: newWorkSlots(), tools: newToolSlot(), profiling: make(chan struct{}, 1), profileSecond: time.Second, beat: heartbeat, toolTime: maxToolTime}
	a.lookEvery = lookEvery
	a.reveals = &revealLog{admin: a, at: map[string]time.Time{}}
	a.sessions = &sessions{now: o.Now, all: map[digest]*session{}}
	a.people = newDirectory(&o)
	a.access = newAccess(&o, a.people, a.sessions, a.logins)
	a.draining, a.drain = context.WithCancel(context.Background())
	a.handler = a.guard(a.mux())
	return a, nil
}

func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Drain ends the streams, so that the listener can close.
func (a *Admin) Drain() { a.drain() }

// Close releases the API's resources.
func (a *Admin) Close() error {
	a.drain()
	a.reveals.writing.Wait()
	a.people.writing.Wait()
	return a.logins.store.Close()
}
