package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/gateway"
)

// openAdmin opens the door of those who run the server.
func (s *server) openAdmin(context.Context) error {
	if s.config.Listen.Admin == "" {
		return nil
	}
	answer, err := s.newAdmin()
	if err != nil {
		return err
	}
	s.admin, err = s.listen("admin", s.config.Listen.Admin, answer)
	return err
}

func (s *server) newAdmin() (serve, error) {
	s.token = cmp.Or(string(s.config.Admin.Token), newToken())
	server := newHTTPServer(s.adminHandler(), s.log.With("door", "admin"))
	if t := s.config.Admin.TLS; t.Certificate != "" {
		own, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("admin.tls: %s: %w", t.Certificate, err)
		}
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	}
	return s.serveHTTP(server), nil
}

func (s *server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { plain(rw, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if err := s.ready(); err != nil {
			plain(rw, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		text := "ready"
		if !s.store.status().Connected {
			text = "ready, but the store does not answer: rules decide by their on_store_error"
		}
		plain(rw, http.StatusOK, text)
	})
	mux.Handle("GET /v1/status", s.withToken(s.tellStatus))
	return s.ownHost(mux)
}

func plain(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-store")
	rw.WriteHeader(status)
	fmt.Fprintln(rw, text)
}

// ownHost refuses requests for other hosts at a door on loopback: a web page can make a browser
// send them, under a name of its own that leads here.
func (s *server) ownHost(next http.Handler) http.Handler {
	if !loopback(s.config.Listen.Admin) {
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if host != "localhost" && (err != nil || !ip.IsLoopback()) {
			plain(rw, http.StatusForbidden, "this door answers to localhost only")
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// withToken lets in who knows the token. Hashes are compared, so that the time it takes says
// nothing about either.
func (s *server) withToken(next http.HandlerFunc) http.Handler {
	want := sha256.Sum256([]byte(s.token))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(token))
		if !ok || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			rw.Header().Set("WWW-Authenticate", "Bearer")
			plain(rw, http.StatusUnauthorized, "send the admin token as Authorization: Bearer …")
			return
		}
		next(rw, r)
	})
}

// status is what a node says of itself.
type status struct {
	Build     build                    `json:"build"`
	Uptime    float64                  `json:"uptime_seconds"`
	Ready     bool                     `json:"ready"`
	NotReady  string                   `json:"not_ready,omitempty"`
	Addresses map[string]string        `json:"addresses"`
	Store     storeStatus              `json:"store"`
	Rules     rulesStatus              `json:"rules"`
	Upstreams []gateway.UpstreamHealth `json:"upstreams,omitempty"`
}

type storeStatus struct {
	Kind      string         `json:"kind"` // memory or redis
	Connected bool           `json:"connected"`
	Error     string         `json:"error,omitempty"`
	Breaker   *breakerStatus `json:"breaker,omitempty"`
	Nodes     int            `json:"nodes"` // that share the limits, as far as is known
}

type breakerStatus struct {
	State   string    `json:"state"` // closed: calls go to the store; open: they do not
	Since   time.Time `json:"since"`
	Opened  int64     `json:"opened"`
	Refused int64     `json:"refused"` // calls that were not sent
}

type rulesStatus struct {
	Origin   string    `json:"origin"`
	Rules    int       `json:"rules"`
	Version  int64     `json:"version"`
	Checksum string    `json:"checksum"`
	Since    time.Time `json:"since"`
	FromCopy bool      `json:"from_copy"`
	Refused  string    `json:"refused,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func (s *server) tellStatus(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(rw).Encode(s.status()) // the client may be gone
}

func (s *server) status() *status {
	found := &status{
		Build: thisBuild(), Uptime: time.Since(s.started).Seconds(), Ready: true, Addresses: map[string]string{},
		Store: s.store.status(), Rules: s.rules.status(),
	}
	if err := s.ready(); err != nil {
		found.Ready, found.NotReady = false, err.Error()
	}
	for _, d := range s.allDoors() {
		found.Addresses[d.name] = d.listener.Addr().String()
	}
	if s.gateway != nil {
		found.Upstreams = s.gateway.Health()
	}
	return found
}

func (r *ruleSource) status() rulesStatus {
	now := r.live.Status()
	found := rulesStatus{
		Origin: r.origin.String(), Rules: len(r.live.Load().Rules),
		Version: now.Version, Checksum: now.Checksum, Since: now.Since, FromCopy: now.FromCopy,
	}
	if now.Refused != nil {
		found.Refused = now.Refused.Err.Error()
	}
	if now.Err != nil {
		found.Error = now.Err.Error()
	}
	return found
}
