package gateway

import (
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A server is one of an upstream's, and what is known of its health.
//
// It is out after some failures in a row, for a time that grows. Then one request is let through:
// if that goes well, all are. Health checks put it out and bring it back by themselves.
type server struct {
	address *url.URL
	url     string // as it was configured
	log     *slog.Logger

	troubled atomic.Bool // the rest says something; no lock is taken while it does not

	mu       sync.Mutex
	failures int // in a row
	last     error
	until    time.Time // it is out
	backOff  time.Duration
	probed   bool // a request is under way to see whether it works again
	failing  bool // its health check
}

const (
	failuresToGoOut = 3
	minBackOff      = time.Second
	maxBackOff      = 30 * time.Second
)

// admit tells whether a request may be sent. If so, one of succeeded, failed and left must follow.
func (s *server) admit() bool {
	if !s.troubled.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failing:
		return false
	case s.failures < failuresToGoOut:
		return true
	case s.probed || time.Now().Before(s.until):
		return false
	}
	s.probed = true
	return true
}

func (s *server) succeeded() {
	if !s.troubled.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures >= failuresToGoOut {
		s.log.Info("upstream works again", "url", s.url)
	}
	s.failures, s.backOff, s.until, s.probed, s.last = 0, 0, time.Time{}, false, nil
	s.troubled.Store(s.failing)
}

func (s *server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubled.Store(true)
	s.probed, s.last = false, err
	s.failures++
	now := time.Now()
	if s.failures < failuresToGoOut || now.Before(s.until) {
		return // requests that were under way as it went out fail too: that says nothing new
	}
	if s.failures == failuresToGoOut {
		s.log.Warn("upstream fails and gets no requests for a while", "url", s.url, "error", err)
	}
	s.backOff = min(max(2*s.backOff, minBackOff), maxBackOff)
	s.until = now.Add(s.backOff)
}

// left is for a request that ended without telling anything of the server.
func (s *server) left() {
	if !s.troubled.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = false
}

// checked is what health checks have found.
func (s *server) checked(healthy bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != healthy {
		return
	}
	s.failing = !healthy
	if healthy {
		s.log.Info("upstream passes its health check again", "url", s.url)
		s.failures, s.backOff, s.until, s.probed, s.last = 0, 0, time.Time{}, false, nil
	} else {
		s.log.Warn("upstream fails its health check and gets no requests", "url", s.url, "error", err)
		s.last = err
	}
	s.troubled.Store(s.failing)
}

// wait is how long until the server may be asked again, as far as can be told.
func (s *server) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.until), 0)
}

// UpstreamHealth is how one server of an upstream is.
type UpstreamHealth struct {
	Host     string    `json:"host,omitempty"`
	Path     string    `json:"path,omitempty"`
	URL      string    `json:"url"`
	Up       bool      `json:"up"`
	Failures int       `json:"failures"`        // in a row
	Until    time.Time `json:"until,omitzero"`  // it gets no requests; zero if that is not a matter of time
	Error    string    `json:"error,omitempty"` // the last
}

// Health tells how every server is.
func (g *Gateway) Health() []UpstreamHealth {
	var all []UpstreamHealth
	for _, r := range g.routes {
		for _, s := range r.servers {
			h := s.health()
			h.Host, h.Path = r.host, r.path
			all = append(all, h)
		}
	}
	return all
}

func (s *server) health() UpstreamHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := !s.failing && s.failures < failuresToGoOut
	h := UpstreamHealth{URL: s.url, Up: up, Failures: s.failures, Until: s.until}
	if s.last != nil {
		h.Error = s.last.Error()
	}
	return h
}
