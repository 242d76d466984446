package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
	"github.com/penstock-io/penstock/storage"
)

// Options are what the API shows and changes.
type Options struct {
	Token       string // of operators
	ViewerToken string // of those who may only look; "": there are none
	Hosts       webguard.Hosts

	Status func() Status
	Nodes  func() []membership.Known // that share the limits, this one first
	Ready  func() error              // why calls should not be sent here; nil: they should

	Rules   Rules
	Store   Store
	Local   penstock.Store // what counts while Store does not answer; nil: none
	Forget  Forget         // what else this node knows of a key; nil: nothing
	Traffic *traffic.Traffic
	Metrics http.Handler // nil: none
	Demo    Demo         // nil: this is none

	// Scratch makes a store that is empty, in memory: for limiting logins, and for trying rules out.
	Scratch func() (Scratch, error)

	// Console answers for what is not of the API; nil: nothing does. It needs no token, so it must
	// not tell anything.
	Console http.Handler

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // for tests; nil: the clock
}

// Rules are the rules of a node and where they come from.
type Rules struct {
	Live   Live
	Origin live.Origin
	Kind   Kind

	// Service changes them; nil: they can only be read here.
	Service *ruleservice.Service

	Compile rules.Options // as the node compiles them
}

// Live is the rules that a node serves: a *[live.Rules].
type Live interface {
	Load() *rules.Snapshot
	Status() live.Status
}

// A Kind is where rules come from.
type Kind string

const (
	Database Kind = "database"
	Files    Kind = "files"
	Redis    Kind = "redis"           // published there by a node that has the database
	Envoy    Kind = "envoy_ratelimit" // limits in the format of envoyproxy/ratelimit, from files or a management server
)

// A Store is one that can be looked into and operated.
type Store interface {
	penstock.Store
	storage.Banner
	storage.Resetter
	storage.Inspector
	storage.Lister
}

// A Forget drops what a node knows of a key from before an instant, or only of its ban.
type Forget func(s storage.Subject, onlyBan bool, before penstock.Instant)

// A Scratch is a store for a while.
type Scratch interface {
	penstock.Store
	storage.Settler
	Close() error
}

// An Admin is the API. It is the handler of the whole door.
type Admin struct {
	Options
	handler  http.Handler
	access   *access
	sessions *sessions
	logins   *logins
	veil     *veil
	reveals  *reveals
	turns    *turns        // of work that takes long
	beat     time.Duration // between two signs of life of a stream

	overviews, tails places // streams that are open
	lookEvery        time.Duration

	draining context.Context
	drain    context.CancelFunc
}

// New returns the API. It ends with Close.
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
	need(o.Store == nil || o.Scratch == nil, "stores")
	need(o.Traffic == nil, "traffic")
	if len(errs) > 0 {
		return nil, fmt.Errorf("new admin API: %w: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	veil := newVeil(o.Rules.Compile.Secret)
	logins, err := newLogins(o, &refusals{log: o.Log, veil: veil, now: o.Now})
	if err != nil {
		return nil, fmt.Errorf("new admin API: %w", err)
	}
	a := &Admin{Options: o, veil: veil, logins: logins, turns: newTurns(), beat: heartbeat}
	a.lookEvery = lookEvery
	a.reveals = newReveals(a)
	a.sessions = newSessions(o.Now)
	a.access = newAccess(o.Token, o.ViewerToken, a.sessions, a.logins)
	a.draining, a.drain = context.WithCancel(context.Background())
	a.handler = a.guard(a.mux())
	return a, nil
}

func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Drain ends the streams, so that the door can close.
func (a *Admin) Drain() { a.drain() }

// Close gives back what the API holds.
func (a *Admin) Close() error {
	a.drain()
	a.reveals.writing.Wait()
	return a.logins.store.Close()
}
