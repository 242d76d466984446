package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/listener"
)

// Options of a gateway. Upstreams, Limiter and Reader must be given.
type Options struct {
	Upstreams []Upstream
	Limiter   *httplimit.Limiter
	Reader    *httplimit.Reader // tells which peers are trusted; the limiter's, or one like it

	// Sources has the headers that rules read, as the reader's: headers that servers take for one of
	// them are dropped. It is asked for every request.
	Sources func() []attribute.Source

	// ProxyHeader is the reader's, if it is one of its own: servers get it from trusted peers only.
	ProxyHeader string

	Limits   Limits
	Timeouts Timeouts
	TLS      *listener.Certificates // nil: plain HTTP
	H2C      bool                   // HTTP/2 without TLS, for clients that know

	// KeepEscapedSlashes lets paths with %2F pass, as they are. Servers that take it for a slash, as
	// nginx does, then serve under one path what was limited under another.
	KeepEscapedSlashes bool

	// ForwardHeaders are forwarded from all clients though by default they are dropped, such as
	// X-HTTP-Method-Override, or dropped unless the peer is trusted, such as X-Original-Host.
	ForwardHeaders []string

	Trace bool // forward TRACE and TRACK, which servers answer with the headers they got

	// Around, if not nil, stands before everything that the gateway does.
	Around func(http.Handler) http.Handler

	Log *slog.Logger
}

// An Upstream is one or more servers that answer alike, and which requests are theirs. Of those
// that fit a request, the one with the longest host has it, and of these the one with the longest
// path.
type Upstream struct {
	Host string   // "": any; *.example.com: all below it
	Path string   // "" or /: any; /api: itself and what is below it
	URLs []string // http, https or h2c (HTTP/2 without TLS), host and port; requests go round

	RewriteHost bool   // send the URL's host rather than the one the client asked for
	RootCAs     string // a PEM file that https servers are verified with; "": the system's
	MaxBody     int64  // instead of Limits.MaxBody
	Health      *HealthCheck

	// Count5xx makes responses of status 500, 502, 503 and 504 failures of the server, beside
	// connections that cannot be established and timeouts.
	Count5xx bool

	// ResponseHeader, Request: instead of those of Timeouts.
	ResponseHeader time.Duration
	Request        time.Duration
}

// A HealthCheck probes each server of an upstream. Its result overrules what the requests say of a
// server. Without one, requests alone decide: see ejectRequests.
type HealthCheck struct {
	Path      string        // asked with GET
	Interval  time.Duration // default 5 s
	Timeout   time.Duration // default 2 s
	Status    int           // the answer of a healthy server; 0: any from 200 to 399
	Healthy   int           // so many good answers bring it back; default 2
	Unhealthy int           // so many bad ones put it out; default 3
}

// Limits bound what one client can make the gateway hold. 0 is the default, a negative number none.
type Limits struct {
	MaxHeaderBytes       int   // of a request; default 16 KiB; always bounded
	MaxBody              int64 // bytes of a request; default 1 MiB
	MaxQueryParameters   int   // default 1000; always bounded
	MaxConnections       int   // at a time, the others wait; default: what open files allow
	ClientShare          int   // percent of MaxConnections from one IPv4 address or IPv6 /64, but for trusted peers; default 50
	MaxConcurrentStreams int   // of an HTTP/2 connection; default 100; always bounded
	MaxUpstream          int   // connections to one server at a time; default none
	MinBodyRate          int64 // bytes per second of a request's body, on average, after Timeouts.Body; default 1 KiB
}

// Timeouts bound how long one client or server can make others wait. 0 is the default, a negative
// duration none.
type Timeouts struct {
	ReadHeader time.Duration // of a request; default 5 s
	Idle       time.Duration // of a connection between requests; default 60 s
	Body       time.Duration // between two pieces of a request's body; default 30 s
	Tunnel     time.Duration // of a WebSocket on which nothing is sent, either way; default 10 min
	Write      time.Duration // until the client takes a piece of the response; default 30 s

	Dial           time.Duration // default 3 s
	ResponseHeader time.Duration // from the end of the request to the response's header; default 60 s
	Request        time.Duration // a whole request; default none, for those that stream

	Linger time.Duration // how long connections are kept for one last request when draining; default 1 s
	Drain  time.Duration // how long requests may take to end when draining; default 30 s
}

// Connections returns how many connections Limits.MaxConnections of this value allow; 0 is no bound.
func Connections(configured int) int { return defaulted(configured, connectionsForOpenFiles()) }

// streamBuffer is how much of a request's body is taken in over HTTP/2 before somebody reads it.
const streamBuffer = 64 << 10

const defaultBodyTimeout = 30 * time.Second

func (l *Limits) setDefaults() {
	l.MaxHeaderBytes = positive(l.MaxHeaderBytes, 16<<10)
	l.MaxQueryParameters = positive(l.MaxQueryParameters, 1000)
	l.MaxConcurrentStreams = positive(l.MaxConcurrentStreams, 100)
	l.MaxConnections = Connections(l.MaxConnections)
	l.ClientShare = positive(l.ClientShare, 50)
	l.MaxBody = defaulted(l.MaxBody, 1<<20)
	l.MaxUpstream = defaulted(l.MaxUpstream, 0)
	l.MinBodyRate = defaulted(l.MinBodyRate, 1<<10)
}

func (t *Timeouts) setDefaults() {
	t.ReadHeader = defaulted(t.ReadHeader, 5*time.Second)
	t.Idle = defaulted(t.Idle, 60*time.Second)
	t.Body = defaulted(t.Body, defaultBodyTimeout)
	t.Tunnel = defaulted(t.Tunnel, 10*time.Minute)
	t.Write = defaulted(t.Write, 30*time.Second)
	t.Dial = defaulted(t.Dial, 3*time.Second)
	t.ResponseHeader = defaulted(t.ResponseHeader, 60*time.Second)
	t.Request = defaulted(t.Request, 0)
	t.Linger = defaulted(t.Linger, time.Second)
	t.Drain = defaulted(t.Drain, 30*time.Second)
}

func (c *HealthCheck) setDefaults() {
	c.Interval = positive(c.Interval, 5*time.Second)
	c.Timeout = positive(c.Timeout, 2*time.Second)
	c.Healthy = positive(c.Healthy, 2)
	c.Unhealthy = positive(c.Unhealthy, 3)
}

type number interface{ ~int | ~int64 }

// defaulted makes 0 the default, and none, which is negative, 0.
func defaulted[N number](n, standard N) N {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return standard
	}
	return n
}

// positive makes the default of what is not.
func positive[N number](n, standard N) N {
	if n > 0 {
		return n
	}
	return standard
}
