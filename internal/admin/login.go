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
)

// Attempts to be let in, of one network: an IPv4 address or a /64.
const (
	maxAttempts   = 10
	attemptWindow = time.Minute
	ipv6Network   = 64
)

// logins limits attempts, as Penstock limits everything.
type logins struct {
	store  Scratch
	meter  *penstock.Meter
	hasher penstock.Hasher
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
	return &logins{store: store, meter: meter, hasher: penstock.NewHasher(rand.Text()), now: o.Now, refusals: r}, nil
}

// attempt counts one, and tells how long to wait if there were too many.
func (l *logins) attempt(ctx context.Context, from netip.Addr) *Problem {
	bits := from.BitLen()
	if from.Is6() {
		bits = ipv6Network
	}
	network, _ := from.Prefix(bits)
	who := l.hasher.Subject("", "login", penstock.Attribute{Name: "network", Value: network.String()})
	t := penstock.Ticket{Groups: []penstock.Group{{Subject: who, Charges: []penstock.Charge{{Meter: l.meter, Cost: 1}}}}}
	if l.now != nil {
		t.Now = penstock.InstantOf(l.now())
	}
	var out penstock.Outcome
	if err := l.store.Take(context.WithoutCancel(ctx), &t, &out); err != nil { // who hangs up has tried all the same
		return problem(http.StatusServiceUnavailable, Unavailable, "attempts to log in cannot be counted")
	}
	if out.Allowed {
		return nil
	}
	l.refusals.add(tooMany, from)
	wait := int64(math.Ceil(out.Decisions[0].RetryAfter.Seconds()))
	p := problem(http.StatusTooManyRequests, Limited, fmt.Sprintf("more than %d attempts within %v; retry in %d s", maxAttempts, attemptWindow, wait))
	p.retryAfter = wait
	return p
}

// wrong answers a token that is good for nothing. It counts as an attempt; those who show a good one
// are not kept out by the attempts of others.
func (l *logins) wrong(ctx context.Context, from netip.Addr) *Problem {
	if p := l.attempt(ctx, from); p != nil {
		return p
	}
	return l.unknown(from)
}

// unknown refuses a token that was counted as an attempt.
func (l *logins) unknown(from netip.Addr) *Problem {
	l.refusals.add(wrongToken, from)
	return problem(http.StatusUnauthorized, Unauthorized, "this token is not known here")
}

// A Session is what is told of one.
type Session struct {
	Role    Role       `json:"role"`
	Session bool       `json:"session"`           // by its cookie; otherwise by a token
	Since   *time.Time `json:"since,omitempty"`   // of a session
	Expires *time.Time `json:"expires,omitempty"` // if it is not used before that
}

func (a *Admin) login(x *exchange) (any, error) {
	var asked struct {
		Token string `json:"token"`
	}
	if err := x.read(&asked); err != nil {
		return nil, err
	}
	if p := a.logins.attempt(x.r.Context(), x.who.address); p != nil {
		return nil, p
	}
	g := a.access.granted(asked.Token)
	if g == nil {
		return nil, a.logins.unknown(x.who.address)
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
