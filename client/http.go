package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/internal/remote"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/internal/wire"
)

// OnError is what happens to a request if the service does not answer.
type OnError = remote.OnError

const (
	Allow = remote.Allow // it passes unchecked
	Deny  = remote.Deny
)

// Options of a client. The zero value is ready to use.
type Options struct {
	Timeout time.Duration // of one request; default 500 ms. The context may end it sooner.
	OnError OnError       // default Allow

	// Connections is how many idle connections are kept; default 64. The number of open connections is not
	// limited: there are as many as concurrent requests.
	Connections int

	// ResponseHeaders are the response headers that are sent with conclusions: those that rules read.
	ResponseHeaders []string

	// Client sends the requests instead of a built-in one, for proxies, certificates and credentials.
	// Connections is then ignored.
	Client *http.Client
}

// HTTP is a client of the decision API. It is safe for concurrent use.
type HTTP struct {
	base    *url.URL
	client  *http.Client
	timeout time.Duration
	onError OnError

	responseHeaders []string
}

var (
	_ penstock.Decider   = (*HTTP)(nil)
	_ penstock.Concluder = (*HTTP)(nil)
)

// NewHTTP returns a client of the service at a URL like http://penstock:8090. It does not connect before the
// first request.
func NewHTTP(base string, o Options) (*HTTP, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("new client: %w: invalid URL %q", penstock.ErrInvalid, urlform.Redact(base))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("new client: %w: %q is not a URL like http://penstock:8090", penstock.ErrInvalid, urlform.Redact(base))
	case o.Timeout < 0 || o.Connections < 0 || o.OnError > Deny:
		return nil, fmt.Errorf("new client: %w: timeout %v, connections %d and on-error %d must not be negative or unknown", penstock.ErrInvalid, o.Timeout, o.Connections, o.OnError)
	}
	h := &HTTP{base: u, timeout: cmp.Or(o.Timeout, remote.DefaultTimeout), onError: o.OnError, responseHeaders: o.ResponseHeaders}
	if o.Client != nil {
		h.client = new(*o.Client)
	} else {
		h.client = &http.Client{Transport: transport(cmp.Or(o.Connections, 64))}
	}
	// Do not follow redirects: that would send a charge twice.
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return h, nil
}

func transport(connections int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	t.DisableCompression = true
	// Close idle connections before the service does: a charge on a connection that is being closed is lost.
	// The service closes a connection without a first request after 5 s. Such connections exist, because a
	// request that waits for a new one may be sent on another that becomes free.
	t.IdleConnTimeout = 4 * time.Second
	return t
}

// Close closes idle connections.
func (h *HTTP) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

// Decide asks for a verdict. Its instants are of this machine's clock.
func (h *HTTP) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	at := []string{"v1", "check"}
	if c.Reserve {
		at[1] = "reserve"
	}
	reply, err := h.send(ctx, http.MethodPost, at, wire.AppendCall(nil, c), wire.MaxBody)
	if err == nil {
		err = unreadable(wire.ParseVerdict(reply, remote.Now(), v))
	}
	if err == nil && !v.Allowed && v.Reason == penstock.ReasonOK {
		err = fmt.Errorf("%w: invalid verdict: denied without a reason", remote.ErrUnavailable)
	}
	if err != nil {
		err = fmt.Errorf("decide at %s: %w", urlform.Redact(h.base.String()), err)
		h.onError.Without(v, err)
	}
	return err
}

// DecideEach asks for a verdict on each request, in as few HTTP requests as the service accepts. The slices
// must have the same length.
func (h *HTTP) DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	together := func(b remote.Batch) error {
		reply, err := h.send(ctx, http.MethodPost, []string{"v1", "check", "batch"}, wire.AppendBatch(nil, b.Calls), wire.MaxBatchBody)
		if err == nil {
			err = unreadable(wire.ParseResults(reply, remote.Now(), b.Verdicts, b.Errs))
		}
		if err != nil {
			return fmt.Errorf("decide %d calls at %s: %w", len(b.Calls), urlform.Redact(h.base.String()), err)
		}
		return nil
	}
	h.onError.Each(remote.Batch{Calls: calls, Verdicts: verdicts, Errs: errs}, together, func(c *penstock.Call, v *penstock.Verdict) error {
		return h.Decide(ctx, c, v)
	})
}

// Conclude settles, releases or renews a reservation. After an error that wraps [penstock.ErrUnavailable] it
// may be sent again: it takes effect once. Of the headers of a response, Conclude sends those of
// [Options].ResponseHeaders.
func (h *HTTP) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	v.Reset()
	method, at, body, err := h.conclusion(c)
	if err != nil {
		return fmt.Errorf("%v a reservation: %w", c.Verb, err)
	}
	reply, err := h.send(ctx, method, at, body, wire.MaxBody)
	if err == nil {
		err = unreadable(wire.ParseVerdict(reply, remote.Now(), v))
	}
	if err != nil {
		return fmt.Errorf("%v a reservation at %s: %w", c.Verb, urlform.Redact(h.base.String()), err)
	}
	return nil
}

func (h *HTTP) conclusion(c *penstock.Conclusion) (method string, at []string, body []byte, err error) {
	at = []string{"v1", "reservations", url.PathEscape(c.Reservation)}
	switch {
	case c.Reservation == "" || c.Reservation == "." || c.Reservation == "..":
		return "", nil, nil, fmt.Errorf("%q: %w", c.Reservation, penstock.ErrNoReservation)
	case c.Verb == penstock.Settle && c.Response != nil:
		return http.MethodPost, []string{"v1", "report"}, wire.AppendReport(nil, c.Reservation, c.Response, h.responseHeaders), nil
	case c.Verb == penstock.Settle:
		return http.MethodPost, append(at, "settle"), wire.AppendSettle(nil, c.Cost), nil
	case c.Verb == penstock.Renew:
		return http.MethodPost, append(at, "renew"), wire.AppendRenew(nil, c.TTL), nil
	case c.Verb == penstock.Release:
		return http.MethodDelete, at, nil, nil
	}
	return "", nil, nil, fmt.Errorf("%w: unknown verb", penstock.ErrInvalid)
}

// unreadable returns an error for a reply that cannot be parsed.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", remote.ErrUnavailable, err)
}
