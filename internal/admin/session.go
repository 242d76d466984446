package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// How long a session lasts, and how many there are at most: then the one goes that was used longest
// ago.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 30 * time.Minute
	maxSessions = 1000
)

// A session is that of somebody who showed a token once.
type session struct {
	role  Role
	token string // as a caller's

	id    digest
	since time.Time
	used  time.Time // guarded by sessions.mu
}

// sessions are those under way on this node. What is kept of the secret in a cookie is its hash.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[digest]*session
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, all: map[digest]*session{}}
}

// begin starts a session and returns its secret. The one that the caller had before ends.
func (s *sessions) begin(g *grant, before string) (*session, string) {
	secret := rand.Text() + rand.Text()
	now := s.now()
	begun := &session{role: g.role, token: g.name(), id: sha256.Sum256([]byte(secret)), since: now, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(before)))
	s.makeRoom(now)
	s.all[begun.id] = begun
	return begun, secret
}

// makeRoom drops what is over and, if that is not enough, what was used longest ago.
func (s *sessions) makeRoom(now time.Time) {
	var oldest *session
	for id, one := range s.all {
		if one.over(now) {
			delete(s.all, id)
		} else if oldest == nil || one.used.Before(oldest.used) {
			oldest = one
		}
	}
	if len(s.all) >= maxSessions {
		delete(s.all, oldest.id)
	}
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.since) >= sessionLife || now.Sub(s.used) >= sessionIdle
}

// find returns the session of a secret, which is thereby used; nil if there is none.
func (s *sessions) find(secret string) *session {
	if secret == "" {
		return nil
	}
	id := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	now := s.now()
	if found == nil || found.over(now) {
		delete(s.all, id)
		return nil
	}
	found.used = now
	return found
}

// lasts tells whether a session goes on. To ask is no use of it.
func (s *sessions) lasts(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[one.id] == one && !one.over(s.now())
}

func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one.id)
}

// until is when a session ends if nobody uses it again.
func (s *sessions) until(one *session) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, idle := one.since.Add(sessionLife), one.used.Add(sessionIdle)
	if idle.Before(end) {
		return idle
	}
	return end
}

// The cookie of a session. A browser takes one called __Host- only over TLS, for this host and the
// whole of it.
const (
	secureCookie = "__Host-penstock"
	plainCookie  = "penstock_session" // without TLS, which is on loopback only
)

func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return secureCookie
	}
	return plainCookie
}

// sessionOf is the secret that a request shows; "" if none.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// newCookie has no end of its own: it goes with the browser, or when the session does.
func newCookie(r *http.Request, secret string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/",
		Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}
