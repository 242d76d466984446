package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// How long a session lasts, and how many there are at most. Beyond that, the least recently used one ends.
const (
	sessionLife = 12 * time.Hour
	sessionIdle = 30 * time.Minute
	maxSessions = 1000

	// Of one user or token, so that nobody can end the sessions of others. Several people may share a token of the
	// configuration.
	maxUserSessions  = 20
	maxGrantSessions = 100
)

// A session belongs to a client that authenticated once. What it may do is looked up with every request.
type session struct {
	credential credential

	id    digest
	since time.Time
	used  time.Time // guarded by sessions.mu
}

// sessions are the open sessions of this node. It keeps only the hash of the secret in a cookie.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[digest]*session
}

// begin starts a session and returns its secret. The client's previous session ends.
func (s *sessions) begin(c credential, before string) (*session, string) {
	secret := rand.Text() + rand.Text()
	now := s.now()
	begun := &session{credential: c, id: sha256.Sum256([]byte(secret)), since: now, used: now}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(before)))
	s.makeRoom(now, &c)
	s.all[begun.id] = begun
	return begun, secret
}

// makeRoom drops expired sessions and, if that is not enough, the least recently used ones: of the same user or token
// if it has too many, else of all.
func (s *sessions) makeRoom(now time.Time, c *credential) {
	var oldest, own *session
	mine, most := 0, maxUserSessions
	if c.grant != nil {
		most = maxGrantSessions
	}
	for id, one := range s.all {
		if one.isOver(now) {
			delete(s.all, id)
			continue
		}
		if oldest == nil || one.used.Before(oldest.used) {
			oldest = one
		}
		if one.credential.grant == c.grant && one.credential.user == c.user && one.credential.token == c.token {
			if mine++; own == nil || one.used.Before(own.used) {
				own = one
			}
		}
	}
	if mine >= most {
		delete(s.all, own.id)
	} else if len(s.all) >= maxSessions {
		delete(s.all, oldest.id)
	}
}

func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.since) >= sessionLife || now.Sub(s.used) >= sessionIdle
}

// find returns the session of a secret and marks it as used. It returns nil if there is none.
func (s *sessions) find(secret string) *session {
	if secret == "" {
		return nil
	}
	id := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	now := s.now()
	if found == nil || found.isOver(now) {
		delete(s.all, id)
		return nil
	}
	found.used = now
	return found
}

// isOpen reports whether a session is still open. It does not mark the session as used.
func (s *sessions) isOpen(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[one.id] == one && !one.isOver(s.now())
}

func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one.id)
}

// endOf returns when a session ends if it is not used again.
func (s *sessions) endOf(one *session) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, idle := one.since.Add(sessionLife), one.used.Add(sessionIdle)
	if idle.Before(end) {
		return idle
	}
	return end
}

// The session cookie. A browser accepts a name with the prefix __Host- only over TLS, for this host and for all its
// paths.
const (
	secureCookie = "__Host-penstock"
	plainCookie  = "penstock_session" // without TLS, which is allowed on loopback only
)

func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return secureCookie
	}
	return plainCookie
}

// sessionOf returns the secret in the request's cookie, or "".
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// newCookie returns a cookie without an expiry: it lasts until the browser closes, or until the session ends.
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
