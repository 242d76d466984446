package gateway

import (
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/internal/http1"
)

// A server is one upstream server and what is known about its health.
//
// Requests judge it passively: it is ejected for a while when too many of its recent requests failed, if enough other
// servers remain (see route.eject). After the back-off, one request is let through as a probe; if it succeeds, the
// server is back. An active health check overrides this in both directions.
type server struct {
	address *url.URL
	url     string        // as configured
	client  *http1.Client // of common requests; nil: the route's transport sends all
	log     *slog.Logger

	out atomic.Bool // unhealthy or ejected; admit takes no lock while it is false

	mu        sync.Mutex
	recent    outcomes
	failures  int   // consecutive
	last      error // of the consecutive failures, or of the health check
	ejected   bool
	until     time.Time // end of the ejection
	backOff   time.Duration
	probing   bool // a request is in flight to find out whether the server is back
	unhealthy bool // according to its health check
}

const (
	// ejectWindow, ejectRequests: a server is ejected when at least half of its requests of the last ten seconds
	// failed, and there were at least ten.
	ejectWindow   = 10 * time.Second
	ejectRequests = 10

	minBackOff = time.Second
	maxBackOff = 30 * time.Second

	// failuresToReport is the number of consecutive failures after which Health reports a server as down. It may
	// still get requests.
	failuresToReport = 3
)

// admit reports whether the server may be sent a request. If so, the caller must then call succeeded, failed or left.
func (s *server) admit() bool {
	if !s.out.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.unhealthy:
		return false
	case !s.ejected:
		return true
	case s.probing || time.Now().Before(s.until):
		return false
	}
	s.probing = true
	return true
}

// admitEjected is admit for requests without a server in rotation: only a failed health check refuses them.
func (s *server) admitEjected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unhealthy
}

func (s *server) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.add(time.Now(), false)
	if s.failures >= failuresToReport || s.ejected {
		s.log.Info("upstream server recovered", "url", s.url)
	}
	s.recover()
}

// recover forgets failed requests. The lock must be held.
func (s *server) recover() {
	if s.ejected {
		s.recent = outcomes{}
	}
	s.failures, s.last = 0, nil
	s.ejected, s.until, s.backOff, s.probing = false, time.Time{}, 0, false
	s.out.Store(s.unhealthy)
}

// failed reports whether the server should be ejected.
func (s *server) failed(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.recent.add(now, true)
	s.last, s.probing = err, false
	if s.failures++; s.failures == failuresToReport {
		s.log.Warn("requests to upstream server fail", "url", s.url, "error", err)
	}
	if s.ejected {
		if !now.Before(s.until) { // otherwise the request was in flight before the ejection
			s.extend(now)
		}
		return false
	}
	requests, failures := s.recent.count(now)
	return requests >= ejectRequests && 2*failures >= requests && !s.unhealthy
}

// eject takes the server out of rotation.
func (s *server) eject() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ejected = true
	s.out.Store(true)
	s.extend(time.Now())
	s.log.Warn("upstream server ejected", "url", s.url, "for", s.backOff, "error", s.last)
}

// extend starts the next, longer back-off. The lock must be held.
func (s *server) extend(now time.Time) {
	s.backOff = min(max(2*s.backOff, minBackOff), maxBackOff)
	s.until = now.Add(s.backOff)
}

// left ends a request that says nothing about the server.
func (s *server) left() {
	if !s.out.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probing = false
}

// checked records the result of health checks. A successful one also ends an ejection.
func (s *server) checked(healthy bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if healthy != s.unhealthy && !(healthy && s.ejected) {
		return
	}
	s.unhealthy = !healthy
	if healthy {
		s.log.Info("upstream server is healthy", "url", s.url)
		s.recover()
		return
	}
	s.log.Warn("upstream server is unhealthy", "url", s.url, "error", err)
	s.last = err
	s.out.Store(true)
}

// wait returns the time until the server may get a request again, or 0 if that is unknown.
func (s *server) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.until), 0)
}

// outcomes counts the requests of the last seconds, and how many of them failed.
type outcomes struct {
	seconds [ejectWindow / time.Second]struct {
		start              time.Time
		requests, failures int
	}
	current int
}

func (o *outcomes) add(now time.Time, failed bool) {
	if now.Sub(o.seconds[o.current].start) >= time.Second {
		o.current = (o.current + 1) % len(o.seconds)
		o.seconds[o.current].start = now
		o.seconds[o.current].requests, o.seconds[o.current].failures = 0, 0
	}
	o.seconds[o.current].requests++
	if failed {
		o.seconds[o.current].failures++
	}
}

func (o *outcomes) count(now time.Time) (requests, failures int) {
	for i := range o.seconds {
		if s := &o.seconds[i]; now.Sub(s.start) < ejectWindow {
			requests += s.requests
			failures += s.failures
		}
	}
	return requests, failures
}

// UpstreamHealth is the health of one upstream server.
type UpstreamHealth struct {
	Host     string    `json:"host,omitempty"`
	Path     string    `json:"path,omitempty"`
	URL      string    `json:"url"`
	Up       bool      `json:"up"`              // false: ejected, unhealthy, or the last requests all failed
	Failures int       `json:"failures"`        // consecutive
	Until    time.Time `json:"until,omitzero"`  // end of the ejection; zero if there is none
	Error    string    `json:"error,omitempty"` // the last
}

// Health returns the health of every upstream server.
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
	up := !s.unhealthy && !s.ejected && s.failures < failuresToReport
	h := UpstreamHealth{URL: s.url, Up: up, Failures: s.failures, Until: s.until}
	if s.last != nil {
		h.Error = s.last.Error()
	}
	return h
}
