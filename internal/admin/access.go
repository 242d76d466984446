package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// A Role is what a caller may do. Each may do what those before it may.
type Role uint8

const (
	nobody   Role = iota // a route that names no role is refused to all
	Anybody              // no token is needed
	Viewer               // looks
	Operator             // changes
)

func (r Role) String() string {
	return [...]string{"nobody", "anybody", "viewer", "operator"}[r]
}

// MarshalText writes the role as String does.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A caller is who asks.
type caller struct {
	role    Role
	token   string     // which one it showed: the beginning of its hash
	address netip.Addr // of its connection
	session *session   // nil: it shows its token each time
}

// String names the caller in the audit: role, token and address.
func (c *caller) String() string { return fmt.Sprintf("%v %s at %v", c.role, c.token, c.address) }

type digest = [sha256.Size]byte

// A grant is a token, as its hash, and what it is good for.
type grant struct {
	token digest
	role  Role
}

// name tells tokens apart without telling them.
func (g *grant) name() string { return hex.EncodeToString(g.token[:4]) }

// access tells who is let in.
type access struct {
	grants   []grant
	sessions *sessions
	logins   *logins
}

func newAccess(operator, viewer string, s *sessions, l *logins) *access {
	a := &access{sessions: s, logins: l, grants: []grant{{sha256.Sum256([]byte(operator)), Operator}}}
	if viewer != "" {
		a.grants = append(a.grants, grant{sha256.Sum256([]byte(viewer)), Viewer})
	}
	return a
}

// granted finds what a token is good for; nil if nothing. Hashes are compared, and all of them, so
// that the time it takes says nothing about any.
func (a *access) granted(token string) (found *grant) {
	got := sha256.Sum256([]byte(token))
	for i := range a.grants {
		if subtle.ConstantTimeCompare(a.grants[i].token[:], got[:]) == 1 {
			found = &a.grants[i]
		}
	}
	return found
}

// admit finds out who asks, and whether that is enough for the role. The caller is there with a
// problem too, as far as it is known.
func (a *access) admit(r *http.Request, role Role) (caller, *Problem) {
	who := caller{role: Anybody, address: addressOf(r)}
	if role == Anybody {
		return who, nil
	}
	if problem := a.recognise(r, &who); problem != nil {
		return who, problem
	}
	if role == nobody || who.role < role {
		return who, refuse(http.StatusForbidden, Forbidden, fmt.Sprintf("this takes the role %v, yours is %v", role, who.role))
	}
	return who, nil
}

// recognise fills in the role by the token or the session that the request shows.
func (a *access) recognise(r *http.Request, who *caller) *Problem {
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := strings.CutPrefix(header, "Bearer ")
		g := a.granted(token)
		if !ok || g == nil {
			return a.logins.wrong(r.Context(), who.address)
		}
		who.role, who.token = g.role, g.name()
		return nil
	}
	s := a.sessions.find(sessionOf(r))
	if s == nil {
		return refuse(http.StatusUnauthorized, Unauthorized, "send a token as Authorization: Bearer …, or begin a session at /v1/session")
	}
	who.role, who.token, who.session = s.role, s.token, s
	return nil
}

// addressOf is where a connection comes from. No header is believed: nothing stands before this door.
func addressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(host)
	return address.Unmap().WithZone("")
}
