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

// Each network (an IPv4 address or an IPv6 /64) may fail maxAttempts logins in each attemptWindow. Passwords are
// limited further: by the user, against guesses from many networks, and all attempts of a network, because each
// costs a hash.
const (
	maxAttempts   = 10
	attemptWindow = time.Minute
	ipv6Network   = 64

	maxUserFailures = 30
	userWindow      = 15 * time.Minute
	maxPasswords    = 60
	maxOwnChanges   = 60 // of tokens and passwords by one user who is not an admin
	changeWindow    = time.Hour
)

// logins limits logins and what else people could do too often.
type logins struct {
	store  Scratch
	hasher storage.Hasher
	now    func() time.Time // nil: the store's clock

	failures, passwords, userFailures, changes *algorithm.Meter

	turns    *hashTurns
	refusals *refusals
}

func newLogins(o Options, r *refusals) (*logins, error) {
	l := &logins{hasher: storage.NewHasher(rand.Text()), now: o.Now, refusals: r, turns: newHashTurns()}
	for _, limit := range []struct {
		meter  **algorithm.Meter
		count  int64
		window time.Duration
	}{
		{&l.failures, maxAttempts, attemptWindow}, {&l.passwords, maxPasswords, attemptWindow},
		{&l.userFailures, maxUserFailures, userWindow}, {&l.changes, maxOwnChanges, changeWindow},
	} {
		meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: limit.count, Window: limit.window}.Compile()
		if err != nil {
			return nil, err
		}
		*limit.meter = meter
	}
	var err error
	l.store, err = o.Scratch()
	return l, err
}

// take charges a limit of a network or user. A cost of 0 is a peek.
func (l *logins) take(ctx context.Context, meter *algorithm.Meter, kind, value string, cost int64) (penstock.Decision, *Problem) {
	who := l.hasher.Subject("", kind, penstock.Attribute{Name: kind, Value: value})
	t := storage.Ticket{Groups: []storage.Group{{Subject: who, Charges: []algorithm.Charge{{Meter: meter, Cost: cost}}}}}
	if l.now != nil {
		t.Now = penstock.InstantOf(l.now())
	}
	var out storage.Outcome
	if err := l.store.Take(context.WithoutCancel(ctx), &t, &out); err != nil { // a client that disconnects is counted too
		return penstock.Decision{}, refuse(http.StatusServiceUnavailable, Unavailable, "cannot count failed logins")
	}
	return out.Decisions[0], nil
}

func networkOf(from netip.Addr) string { return ipform.Network(from, ipv6Network).String() }

// limited returns the problem for a client that must wait.
func limited(d *penstock.Decision, format string, args ...any) *Problem {
	wait := int64(math.Ceil(d.RetryAfter.Seconds()))
	p := refuse(http.StatusTooManyRequests, Limited, fmt.Sprintf(format, args...)+fmt.Sprintf("; retry in %d s", wait))
	p.RetryAfter = wait
	return p
}

func tooManyFailures(d *penstock.Decision) *Problem {
	return limited(d, "more than %d failed logins within %v", maxAttempts, attemptWindow)
}

// refuse refuses an unknown token and counts the failure. After maxAttempts failures of a network it answers 429 and
// closes the connection, so that every further guess costs a new one. Valid tokens never get here, so guesses from a
// network do not lock out its operators.
func (l *logins) refuse(ctx context.Context, from netip.Addr) *Problem {
	return l.failed(ctx, from, wrongToken, "unknown token")
}

func (l *logins) failed(ctx context.Context, from netip.Addr, why, detail string) *Problem {
	d, problem := l.take(ctx, l.failures, "network", networkOf(from), 1)
	switch {
	case problem != nil:
		return problem
	case d.Allowed:
		l.refusals.add(why, from)
		return refuse(http.StatusUnauthorized, Unauthorized, detail)
	}
	l.refusals.add(tooMany, from)
	return tooManyFailures(&d)
}

// mayTry refuses an attempt to log in to a user by password if there were too many failures. Unlike a token, a
// password is not even checked then: it is short enough to be guessed.
func (l *logins) mayTry(ctx context.Context, from netip.Addr, user string) *Problem {
	for _, limit := range []struct {
		meter       *algorithm.Meter
		kind, value string
		problem     func(*penstock.Decision) *Problem
	}{
		{l.failures, "network", networkOf(from), tooManyFailures},
		{l.userFailures, "user", user, func(d *penstock.Decision) *Problem {
			return limited(d, "more than %d failed logins of this user within %v", maxUserFailures, userWindow)
		}},
	} {
		d, problem := l.take(ctx, limit.meter, limit.kind, limit.value, 0)
		if problem != nil {
			return problem
		}
		if d.Remaining > 0 {
			continue
		}
		// A charge that is denied costs nothing, and tells when to try again.
		if d, problem = l.take(ctx, limit.meter, limit.kind, limit.value, 1); problem != nil {
			return problem
		}
		l.refusals.add(tooMany, from)
		return limit.problem(&d)
	}
	return nil
}

// mayChange refuses changes by users about themselves if there are too many: the audit keeps every one.
func (l *logins) mayChange(x *apiRequest) error {
	if x.who.role >= Administrator {
		return nil
	}
	d, problem := l.take(x.r.Context(), l.changes, "changes", x.who.name(), 1)
	switch {
	case problem != nil:
		return problem
	case !d.Allowed:
		return limited(&d, "more than %d changes within %v", maxOwnChanges, changeWindow)
	}
	return nil
}

// A Session is the public state of a session.
type Session struct {
	Role    Role       `json:"role"`
	User    string     `json:"user,omitempty"`    // who logged in, or whose token it is
	Token   string     `json:"token,omitempty"`   // name of the API token
	Scopes  []string   `json:"scopes,omitempty"`  // of the token; none: all
	Session bool       `json:"session"`           // authenticated by cookie; otherwise by token
	Since   *time.Time `json:"since,omitempty"`   // of a session
	Expires *time.Time `json:"expires,omitempty"` // unless it is used before then
}

func (a *Admin) login(x *apiRequest, asked *struct {
	Token    string `json:"token"`
	User     string `json:"user"`
	Password string `json:"password"`
}) (any, error) {
	switch {
	case asked.Token != "" && asked.User+asked.Password != "":
		return nil, invalid("send a token, or a user and a password, not both")
	case asked.User != "":
		if err := a.byPassword(x, asked.User, asked.Password); err != nil {
			return nil, err
		}
	default:
		if problem := a.access.byToken(x.r.Context(), asked.Token, &x.who); problem != nil {
			return nil, problem
		}
	}
	a.Log.Info("login", "actor", x.who.String())
	return a.beginSession(x)
}

// beginSession starts a session of the client, and answers with it.
func (a *Admin) beginSession(x *apiRequest) (any, error) {
	begun, secret := a.sessions.begin(x.who.credential, sessionOf(x.r))
	http.SetCookie(x.w, newCookie(x.r, secret))
	x.who.session = begun
	return a.session(x)
}

func (a *Admin) session(x *apiRequest) (any, error) {
	told := Session{Role: x.who.role, Scopes: x.who.scopes}
	if x.who.user != nil {
		told.User = x.who.user.Name
	}
	if x.who.token != nil {
		told.Token = x.who.token.Name
	}
	if s := x.who.session; s != nil {
		told.Session, told.Since, told.Expires = true, new(s.since.UTC()), new(a.sessions.endOf(s).UTC())
	}
	return told, nil
}

func (a *Admin) logout(x *apiRequest) (any, error) {
	if x.who.session != nil {
		a.sessions.end(x.who.session)
	}
	http.SetCookie(x.w, newCookie(x.r, ""))
	x.w.WriteHeader(http.StatusNoContent)
	return responseWritten{}, nil
}
