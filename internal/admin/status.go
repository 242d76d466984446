package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/gateway"
	"github.com/penstock-io/penstock/internal/readiness"
)

// A Status is what a node reports about itself.
type Status struct {
	Node      string                   `json:"node"` // its name
	Build     Build                    `json:"build"`
	Started   time.Time                `json:"started"`
	Uptime    float64                  `json:"uptime_seconds"`
	Ready     bool                     `json:"ready"`
	NotReady  string                   `json:"not_ready,omitempty"`
	Addresses map[string]string        `json:"addresses"`
	Store     StoreStatus              `json:"store"`
	Rules     RulesStatus              `json:"rules"`
	Upstreams []gateway.UpstreamHealth `json:"upstreams,omitempty"`

	Certificates []CertificateStatus `json:"certificates,omitempty"` // of listeners
}

// A Build says what the program was built from.
type Build = buildinfo.Info

// A StoreStatus is the state of the store.
type StoreStatus struct {
	Kind      string         `json:"kind"` // memory or redis
	Connected bool           `json:"connected"`
	Error     string         `json:"error,omitempty"`
	Breaker   *BreakerStatus `json:"breaker,omitempty"`
	Losses    *LossStatus    `json:"losses,omitempty"`
	Nodes     int            `json:"nodes"` // nodes that share the limits, as far as is known

	// SharedCounters is how many counters of this node's memory clients share because it is full. Decisions by them
	// deny clients because of others.
	SharedCounters int64 `json:"shared_counters,omitempty"`
}

// A BreakerStatus is the state of the store's circuit breaker.
type BreakerStatus struct {
	State   string    `json:"state"` // closed: requests go to the store; open: they do not
	Since   time.Time `json:"since"`
	Opened  int64     `json:"opened"`
	Refused int64     `json:"refused"` // requests that were not sent
}

// A LossStatus says that Redis has lost data that it had confirmed, as after FLUSHALL or a failover.
type LossStatus struct {
	Times int64     `json:"times"` // since the start of the node
	Last  time.Time `json:"last"`
}

// A RulesStatus is which rules are served, and what prevents newer ones from being served.
type RulesStatus struct {
	Origin   string    `json:"origin"`
	Rules    int       `json:"rules"`
	Version  int64     `json:"version"`
	Checksum string    `json:"checksum"`
	Since    time.Time `json:"since"`
	FromCopy bool      `json:"from_copy"`
	Refused  string    `json:"refused,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Status returns which rules are served.
func (r *Rules) Status() RulesStatus {
	now := r.Live.Status()
	found := RulesStatus{
		Origin: r.Origin.String(), Rules: len(r.Live.Load().Rules),
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

func (a *Admin) status(*apiRequest) (any, error) { return a.Status(), nil }

func (a *Admin) healthy(x *apiRequest) (any, error) {
	x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(x.w, "alive")
	return responseWritten{}, nil
}

func (a *Admin) ready(x *apiRequest) (any, error) {
	readiness.Write(x.w, readiness.State{NotReady: a.Ready(), Degraded: !a.Status().Store.Connected})
	return responseWritten{}, nil
}

// metrics requires a token, on loopback too: other processes on this machine are not trusted, and metrics contain the
// names of all rules. Prometheus sends a token with authorization.credentials_file.
func (a *Admin) metrics(x *apiRequest) (any, error) {
	if a.Metrics == nil {
		return nil, refuse(http.StatusNotFound, NotFound, "there are no metrics")
	}
	a.Metrics.ServeHTTP(x.w, x.r)
	return responseWritten{}, nil
}
