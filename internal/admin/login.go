package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/storage"
)

// Each network (an IPv4 address or an IPv6 /64) may fail maxAttempts logins in each attemptWindow.
const (
	maxAttempts   = 10
	attemptWindow = time.Minute
	ipv6Network   = 64
)

// logins limits failed logins, both for new sessions and with bearer tokens.
type logins struct {
	store  Scratch
	meter  *algorithm.Meter
	hasher storage.Hasher
	now    func() time.Time // nil: the store's clock

	refusals *refusals
}

func newLogins(o Options, r *refusals) (*logins, error) {
	meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: maxAttempts, Window: attemptWindow}.Compile()
	if err != nil {
		return nil, err
	}
	store, err := o.Scratch()
	if err != nil {
		return nil, err
	}
	return &logins{store: store, meter: meter, hasher: storage.NewHasher(rand.Text()), now: o.Now, refusals: r}, nil
}

// wrong refuses an unknown token and counts the failure. After maxAttempts failures of a network it answers 429 and
// closes the connection, so that every further guess costs a new one. Valid tokens never get here, so guesses from a
// network do not lock out its operators.
func (l *logins) wrong(ctx context.Context, from netip.Addr) *Problem {
	network := ipform.Network(from, ipv6Network)
	who := l.hasher.Subject("", "login", penstock.Attribute{Name: "network", Value: network.String()})
	t := storage.Ticket{Groups: []storage.Group{{Subject: who, Charges: []algorithm.Charge{{Meter: l.meter, Cost: 1}}}}}
	if l.now != nil {
		t.Now = penstock.InstantOf(l.now())
	}
	var out storage.Outcome
	if err := l.store.Take(context.WithoutCancel(ctx), &t, &out); err != nil { // a client that hangs up is counted too
		return refuse(http.StatusServiceUnavailable, Unavailable, "failed logins cannot be counted")
	}
	if out.Allowed {
		l.refusals.add(wrongToken, from)
		return refuse(http.StatusUnauthorized, Unauthorized, "this token is not known here")
	}
	l.refusals.add(tooMany, from)
	wait := int64(math.Ceil(out.Decisions[0].RetryAfter.Seconds()))
	p := refuse(http.StatusTooManyRequests, Limited, fmt.Sprintf("more than %d failed logins within %v; retry in %d s", maxAttempts, attemptWindow, wait))
	p.RetryAfter = wait
	return p
}

// A Session is the public state of a session.
type Session struct {
	Role    Role       `json:"role"`
	Session bool       `json:"session"`           // authenticated by cookie; otherwise by token
	Since   *time.Time `json:"since,omitempty"`   // of a session
	Expires *time.Time `json:"expires,omitempty"` // unless it is used before then
}

func (a *Admin) login(x *exchange) (any, error) {
	var asked struct {
		Token string `json:"token"`
	}
	if err := x.read(&asked); err != nil {
		return nil, err
	}
	g := a.access.granted(asked.Token)
	if g == nil {
		return nil, a.logins.wrong(x.r.Context(), x.who.address)
	}
	begun, secret := a.sessions.begin(g, sessionOf(x.r))
	http.SetCookie(x.w, newCookie(x.r, secret))
	x.who.role, x.who.token, x.who.session = g.role, g.name(), begun
	a.Log.Info("login", "actor", x.who.String())
	return a.session(x)
}

func (a *Admin) session(x *exchange) (any, error) {
	told := Session{Role: x.who.role}
	if s := x.who.session; s != nil {
		since, until := s.since.UTC(), a.sessions.until(s).UTC()
		told.Session, told.Since, told.Expires = true, &since, &until
	}
	return told, nil
}

func (a *Admin) logout(x *exchange) (any, error) {
	if x.who.session != nil {
		a.sessions.end(x.who.session)
	}
	http.SetCookie(x.w, newCookie(x.r, ""))
	x.w.WriteHeader(http.StatusNoContent)
	return answered{}, nil
}
