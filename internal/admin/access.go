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

// A Role is what a client of the API may do. Each role includes the ones before it.
type Role uint8

const (
	nobody   Role = iota // a route without a role is refused to everyone
	Anybody              // no token is needed
	Viewer               // reads
	Operator             // changes
)

func (r Role) String() string {
	return [...]string{"nobody", "anybody", "viewer", "operator"}[r]
}

// MarshalText writes the role as String does.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// A caller is the client of the admin API that sent a request.
type caller struct {
	role    Role
	token   string     // identifies its token: the first bytes of the hash
	address netip.Addr // of its connection
	session *session   // nil: it sends its token with every request
}

// String identifies the client in the audit log: role, token and address.
func (c *caller) String() string { return fmt.Sprintf("%v %s at %v", c.role, c.token, c.address) }

type digest = [sha256.Size]byte

// A grant is the hash of a token and the role it gives.
type grant struct {
	token digest
	role  Role
}

// name identifies a token without revealing it.
func (g *grant) name() string { return hex.EncodeToString(g.token[:4]) }

// access decides who may use the API.
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

// admit identifies the client and checks that it has the role. With a problem, it still returns what is known of the
// client.
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

// recognise sets the role from the request's token or session.
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

// addressOf returns the address of the connection. It trusts no header, since no proxy is expected in front of the
// admin API.
func addressOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(host)
	return address.Unmap().WithZone("")
}
