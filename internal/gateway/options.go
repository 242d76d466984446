package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/listener"
)

// Options configure a gateway. Upstreams, Limiter and Reader are required.
type Options struct {
	Upstreams []Upstream
	Limiter   *httplimit.Limiter
	Reader    *httplimit.Reader // knows which peers are trusted; the limiter's, or an equivalent one

	// Sources returns the headers that rules read, as in the reader. Headers that servers confuse with one of them
	// are dropped. It is called for every request.
	Sources func() []attribute.Source

	// ProxyHeader is the reader's, if that has its own: servers get it only from trusted peers.
	ProxyHeader string

	Limits   Limits
	Timeouts Timeouts
	TLS      *listener.Certificates // nil: plain HTTP
	H2C      bool                   // HTTP/2 without TLS, with prior knowledge

	// FastPath serves common HTTP/1.1 requests by package http1, unless there is TLS. net/http serves all others.
	FastPath bool

	// KeepEscapedSlashes lets paths with %2F pass unchanged. Servers that decode it to a slash, as nginx does, then
	// serve a different path than the one that was limited.
	KeepEscapedSlashes bool

	// ForwardHeaders are forwarded from all clients, although by default they are dropped, such as
	// X-HTTP-Method-Override, or dropped unless the peer is trusted, such as X-Original-Host.
	ForwardHeaders []string

	Trace bool // forward TRACE and TRACK, which servers answer with the headers they received

	// Around, if not nil, wraps the whole handler of the gateway.
	Around func(http.Handler) http.Handler

	Log *slog.Logger
}

// An Upstream is one or more equivalent servers, and the requests they get. If several upstreams match a request, the
// one with the longest host gets it, and among these the one with the longest path.
type Upstream struct {
	Host string   // "": any; *.example.com: all subdomains
	Path string   // "" or /: any; /api: itself and everything below
	URLs []string // http, https or h2c (HTTP/2 without TLS), host and port; used in rotation

	RewriteHost bool   // send the URL's host instead of the one the client requested
	RootCAs     string // PEM file for verifying https servers; "": the system's
	MaxBody     int64  // instead of Limits.MaxBody
	Health      *HealthCheck

	// Count5xx makes responses of status 500, 502, 503 and 504 failures of the server, in addition to failed
	// connections and timeouts.
	Count5xx bool

	// ResponseHeader and Request replace those of Timeouts.
	ResponseHeader time.Duration
	Request        time.Duration
}

// A HealthCheck probes each server of an upstream. Its result overrides the outcome of requests. Without a health
// check, requests alone decide: see ejectRequests.
type HealthCheck struct {
	Path      string        // requested with GET
	Interval  time.Duration // default 5 s
	Timeout   time.Duration // default 2 s
	Status    int           // of a healthy server; 0: any from 200 to 399
	Healthy   int           // consecutive successful probes that bring a server back; default 2
	Unhealthy int           // consecutive failed probes that take it out; default 3
}

// Limits bound the resources that one client can use. 0 is the default, a negative number unlimited.
type Limits struct {
	MaxHeaderBytes       int   // of a request; default 16 KiB; always bounded
	MaxBody              int64 // bytes of a request; default 1 MiB
	MaxQueryParameters   int   // default 1000; always bounded
	MaxConnections       int   // at a time, others wait; default: what open files allow, see connectionsFor
	ClientShare          int   // percent of MaxConnections per IPv4 address or IPv6 /64, except trusted peers; default 50
	MaxConcurrentStreams int   // of an HTTP/2 connection; default 100; always bounded
	MaxUpstream          int   // connections to one server at a time; default unlimited
	MinBodyRate          int64 // bytes per second of a request's body, over every Timeouts.Body; default 1 KiB
}

// Timeouts bound how long one client or server can make others wait. 0 is the default, a negative duration unlimited.
type Timeouts struct {
	ReadHeader time.Duration // of a request; default 5 s
	Idle       time.Duration // of a connection between requests; default 60 s
	Body       time.Duration // between two reads of a request's body; default 30 s
	Tunnel     time.Duration // of a WebSocket without traffic in either direction; default 10 min
	Write      time.Duration // until the client accepts a part of the response; default 30 s

	Dial           time.Duration // default 3 s
	ResponseHeader time.Duration // from the end of the request to the response's header; default 60 s
	Request        time.Duration // a whole request; default unlimited, for streaming

	Linger time.Duration // how long draining keeps connections open for one last request; default 1 s
	Drain  time.Duration // how long draining waits for requests to end; default 30 s
}

// Connections returns how many connections a value of Limits.MaxConnections allows; 0 means unbounded.
func Connections(configured int) int { return defaulted(configured, connectionsFor(openFiles())) }

// connectionsFor returns how many connections a limit on open files allows. It reserves a server connection for each
// client connection, and some files for the rest of the process, including its other listeners. Without a limit, as in
// containers with LimitNOFILE=infinity, or with one that is unknown, there is a bound too: the share of a client is a
// part of it.
func connectionsFor(openFiles uint64) int {
	const rest, unknown, most = 64, 1 << 16, 1 << 20
	if openFiles == 0 {
		openFiles = unknown
	}
	files := int(min(openFiles, most))
	return max(files-files/4-rest, 2) / 2
}

// streamBuffer is how much of a request's body HTTP/2 buffers before it is read.
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

// defaulted replaces 0 with the default, and a negative value, which means none, with 0.
func defaulted[N number](n, standard N) N {
	switch {
	case n < 0:
		return 0
	case n == 0:
		return standard
	}
	return n
}

// positive returns the default for values that are not positive.
func positive[N number](n, standard N) N {
	if n > 0 {
		return n
	}
	return standard
}
