package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
)

// A Role is what a client of the API may do. Each role includes the ones before it.
type Role uint8

const (
	nobody        Role = iota // a route without a role is refused to everyone
	Anybody                   // no token is needed
	Viewer                    // reads
	Operator                  // changes
	Administrator             // manages users and their tokens
)

var roleNames = [...]string{"nobody", "anybody", "viewer", "operator", "admin"}

func (r Role) String() string { return roleNames[r] }

// MarshalText writes the role as String does.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the role of a user or token.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames[Viewer:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown role %.40q: must be viewer, operator or admin", text)
	}
	*r = Viewer + Role(i)
	return nil
}

// roleOf returns the role with a name in the database.
func roleOf(name string) (r Role) {
	_ = r.UnmarshalText([]byte(name)) // nobody, if a later Penstock wrote it
	return r
}

// A credential is what a client has authenticated with: exactly one of a token of the configuration, a user's
// password and an API token.
type credential struct {
	grant       *grant
	user, epoch int64  // id of the user, and its epoch at the time
	token       string // id of the API token
}

// An identity is who a client is, and what it may do at the moment.
type identity struct {
	role   Role
	user   *ruledb.User  // nil: not a user
	token  *ruledb.Token // nil: a password, or a token of the configuration
	scopes []string      // none: all
}

// A principal is the client of the admin API that sent a request.
type principal struct {
	identity
	credential credential
	address    netip.Addr // of its connection
	session    *session   // nil: it sends its token with every request
}

// String identifies the client in the audit log: by the name of the user or token, role and address.
func (c *principal) String() string {
	who := "nobody"
	switch {
	case c.user != nil && c.token != nil:
		who = fmt.Sprintf("%s (%v, token %s)", c.user.Name, c.role, c.token.Name)
	case c.user != nil:
		who = fmt.Sprintf("%s (%v)", c.user.Name, c.role)
	case c.token != nil:
		who = fmt.Sprintf("token %s (%v)", c.token.Name, c.role)
	case c.credential.grant != nil:
		who = c.credential.grant.String()
	}
	return fmt.Sprintf("%s at %v", who, c.address)
}

type digest = [sha256.Size]byte

// A grant is the hash of a token of the configuration and the role it gives.
type grant struct {
	token digest
	role  Role
}

// String names the token without revealing it.
func (g *grant) String() string {
	name := "admin.token"
	if g.role < Administrator {
		name = "admin.viewer_token"
	}
	return name + " " + hex.EncodeToString(g.token[:4])
}

// access decides who may use the API.
type access struct {
	grants   []grant
	people   *directory
	sessions *sessions
	logins   *logins
	now      func() time.Time
}

func newAccess(o *Options, people *directory, s *sessions, l *logins) *access {
	a := &access{people: people, sessions: s, logins: l, now: o.Now, grants: []grant{{sha256.Sum256([]byte(o.Token)), Administrator}}}
	if o.ViewerToken != "" {
		a.grants = append(a.grants, grant{sha256.Sum256([]byte(o.ViewerToken)), Viewer})
	}
	return a
}

// granted returns the grant of a token, or nil if the token is unknown. It compares hashes, and always all of them,
// so that timing reveals nothing about the tokens.
func (a *access) granted(token string) (found *grant) {
	got := sha256.Sum256([]byte(token))
	for i := range a.grants {
		if subtle.ConstantTimeCompare(a.grants[i].token[:], got[:]) == 1 {
			found = &a.grants[i]
		}
	}
	return found
}

// admit identifies the client and checks that it may use the route. With a problem, it still returns what is known of
// the client.
func (a *access) admit(r *http.Request, to *route) (principal, *Problem) {
	who := principal{identity: identity{role: Anybody}, address: addressOf(r)}
	if to.role == Anybody {
		return who, nil
	}
	if problem := a.recognise(r, &who); problem != nil {
		return who, problem
	}
	switch scope := scopeOf(to.path); {
	case to.role == nobody || who.role < to.role:
		return who, refuse(http.StatusForbidden, Forbidden, fmt.Sprintf("requires the role %v, yours is %v", to.role, who.role))
	case len(who.scopes) > 0 && scope != sessionScope && !slices.Contains(who.scopes, scope):
		return who, refuse(http.StatusForbidden, Forbidden, fmt.Sprintf("requires the scope %s, the token has %s", scope, strings.Join(who.scopes, ", ")))
	}
	return who, nil
}

// recognise identifies the client by the request's token or session.
func (a *access) recognise(r *http.Request, who *principal) *Problem {
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := strings.CutPrefix(header, "Bearer ")
		if !ok {
			return a.logins.refuse(r.Context(), who.address)
		}
		return a.byToken(r.Context(), token, who)
	}
	s := a.sessions.find(sessionOf(r))
	if s == nil {
		return refuse(http.StatusUnauthorized, Unauthorized, "send a token as Authorization: Bearer …, or begin a session at /v1/session")
	}
	who.credential, who.session = s.credential, s
	problem := a.resolve(r.Context(), who)
	if problem != nil && problem.Status == http.StatusUnauthorized {
		a.sessions.end(s)
	}
	return problem
}

// byToken identifies the client by a token: of the configuration, or an API token.
func (a *access) byToken(ctx context.Context, token string, who *principal) *Problem {
	if g := a.granted(token); g != nil {
		who.credential = credential{grant: g}
		return a.resolve(ctx, who)
	}
	if !strings.HasPrefix(token, tokenPrefix) || a.people.open == nil {
		return a.logins.refuse(ctx, who.address)
	}
	people, problem := a.people.get(ctx)
	if problem != nil {
		return problem
	}
	found := people.byDigest[sha256.Sum256([]byte(token))]
	if found == nil {
		return a.unknown(ctx, who.address)
	}
	who.credential = credential{token: found.ID}
	problem = a.resolve(ctx, who)
	if problem == nil {
		a.people.used(found.ID)
	}
	return problem
}

// unknown refuses an API token that is not known here, and counts the failure. While the database cannot be read, the
// token may have been created on another node: that it is wrong is not said then.
func (a *access) unknown(ctx context.Context, from netip.Addr) *Problem {
	problem := a.logins.refuse(ctx, from)
	if problem.Status == http.StatusUnauthorized && a.people.isStale() {
		return refuse(http.StatusServiceUnavailable, Unavailable, "cannot check the API token because the database of users and API tokens is unavailable: see the server log; admin.token works")
	}
	return problem
}

// errOver is the answer to a client whose access has ended.
func errOver(why string) *Problem { return refuse(http.StatusUnauthorized, Unauthorized, why) }

// resolve sets who a client is by its credential, and what it may do now: users and tokens can be changed and removed
// at any time.
func (a *access) resolve(ctx context.Context, who *principal) *Problem {
	c := &who.credential
	if c.grant != nil {
		who.identity = identity{role: c.grant.role}
		return nil
	}
	people, problem := a.people.get(ctx)
	if problem != nil {
		return problem
	}
	if c.token != "" {
		return a.resolveToken(people, who)
	}
	u := people.byID[c.user]
	switch {
	case u == nil:
		return errOver("the user was removed")
	case u.Epoch != c.epoch:
		return errOver("the password was changed: log in again")
	}
	who.identity = identity{role: roleOf(u.Role), user: u}
	return nil
}

func (a *access) resolveToken(people *roster, who *principal) *Problem {
	t := people.tokens[who.credential.token]
	if t == nil {
		return errOver("the token was revoked")
	}
	if !t.Expires.IsZero() && !a.now().Before(t.Expires) {
		return errOver("the token expired at " + t.Expires.UTC().Format(time.RFC3339))
	}
	found := identity{role: roleOf(t.Role), token: t, scopes: t.Scopes}
	if t.Owner != 0 {
		if found.user = people.byID[t.Owner]; found.user == nil {
			return errOver("the user of the token was removed")
		}
		found.role = min(found.role, roleOf(found.user.Role))
	}
	who.identity = found
	return nil
}

// isStillAllowed reports whether a client may continue what it has begun: its session is open, and its role is the
// same.
func (a *access) isStillAllowed(ctx context.Context, who *principal) bool {
	if who.session != nil && !a.sessions.isOpen(who.session) {
		return false
	}
	now := *who
	return a.resolve(ctx, &now) == nil && now.role == who.role
}

// sessionScope is open to every token.
const sessionScope = "session"

// scopeOf returns the scope that a route belongs to: the first part of its path, after the version.
func scopeOf(path string) string {
	scope, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/"), "/")
	return scope
}

// scopes returns the scopes that a token can have.
func (a *Admin) scopes() (all []string) {
	for _, r := range a.routes() {
		if scope := scopeOf(r.path); r.role != Anybody && scope != sessionScope && !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	slices.Sort(all)
	return all
}

// addressOf returns the address of the connection. It trusts no header, since no proxy is expected in front of the
// admin API.
func addressOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap().WithZone("")
}
