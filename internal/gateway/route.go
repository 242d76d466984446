package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/urlform"
)

// A route is an upstream in use.
type route struct {
	host    string // lower case; "": any
	below   string // .example.com of *.example.com; "": host is an exact name
	path    string // without a trailing slash; "": any
	servers []*server
	turn    atomic.Uint32

	ejecting sync.Mutex // one ejection at a time, so that enough servers stay
	count5xx bool

	transport   *http.Transport
	rewriteHost bool
	maxBody     int64         // 0: unlimited
	request     time.Duration // 0: unlimited
	health      *HealthCheck
}

const (
	maxUpstreams = 1000
	maxServers   = 1000 // of one upstream
)

func (g *Gateway) newRoutes(upstreams []Upstream) ([]*route, error) {
	if len(upstreams) == 0 || len(upstreams) > maxUpstreams {
		return nil, fmt.Errorf("%d upstreams; must be from 1 to %d", len(upstreams), maxUpstreams)
	}
	var errs []error
	var routes []*route
	type place struct{ host, path string }
	taken := map[place]int{}
	for i := range upstreams {
		u := &upstreams[i]
		r, mistakes := g.newRoute(u)
		at := place{r.host, r.path}
		if j, ok := taken[at]; ok {
			mistakes = append(mistakes, fmt.Errorf("host %q and path %q are those of upstreams[%d]", u.Host, u.Path, j))
		}
		for _, err := range mistakes {
			errs = append(errs, fmt.Errorf("upstreams[%d]: %w", i, err))
		}
		taken[at] = i
		routes = append(routes, r)
	}
	slices.SortStableFunc(routes, func(a, b *route) int {
		return cmp.Or(
			cmp.Compare(len(b.host), len(a.host)),
			cmp.Compare(len(a.below), len(b.below)), // a.b.com before *.b.com
			cmp.Compare(len(b.path), len(a.path)),
		)
	})
	return routes, errors.Join(errs...)
}

// newRoute returns the route of an upstream, or everything that is wrong with it.
func (g *Gateway) newRoute(u *Upstream) (_ *route, errs []error) {
	r := &route{host: strings.ToLower(u.Host), path: strings.TrimSuffix(u.Path, "/"), rewriteHost: u.RewriteHost}
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if strings.HasPrefix(r.host, "*.") {
		r.below = r.host[1:]
	}
	bare := strings.TrimPrefix(r.host, "*.")
	if name, err := urlform.Host(bare); r.host != "" && (err != nil || name != bare) {
		fail("host %q: must be a name without port, or *. and one", u.Host)
	}
	if normal, err := httplimit.NormalizePath(u.Path); u.Path != "" && (err != nil || normal != u.Path) {
		fail("path %q: must begin with a slash and be in normal form, as %q is", u.Path, normal)
	}
	var h2c bool
	var mistakes []error
	r.servers, h2c, mistakes = g.newServers(u.URLs)
	errs = append(errs, mistakes...)
	if u.Health != nil {
		if path := u.Health.Path; !strings.HasPrefix(path, "/") {
			fail("health: path %q: must begin with a slash", path)
		}
		r.health = new(*u.Health)
		r.health.setDefaults()
	}
	r.count5xx = u.Count5xx
	r.maxBody = defaulted(u.MaxBody, g.limits.MaxBody)
	r.request = defaulted(u.Request, g.timeouts.Request)
	var err error
	if r.transport, err = g.newTransport(u, h2c); err != nil {
		errs = append(errs, err)
	} else if g.fast && !h2c && g.limits.MaxUpstream == 0 {
		r.addClients()
	}
	return r, errs
}

func (g *Gateway) newServers(urls []string) (servers []*server, h2c bool, errs []error) {
	if len(urls) == 0 || len(urls) > maxServers {
		errs = append(errs, fmt.Errorf("%d URLs; must be from 1 to %d", len(urls), maxServers))
	}
	for i, text := range urls {
		address, err := parseServer(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		servers = append(servers, &server{address: address, url: text, log: g.log})
		if i > 0 && (address.Scheme == "h2c") != h2c {
			errs = append(errs, fmt.Errorf("URL %q: either all are h2c or none", urlform.Redact(text)))
		}
		if h2c = address.Scheme == "h2c"; h2c {
			address.Scheme = "http"
		}
	}
	return servers, h2c, errs
}

func parseServer(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid URL %q", urlform.Redact(text)) // err can contain parts of a password
	case address.Scheme != "http" && address.Scheme != "https" && address.Scheme != "h2c":
		return nil, fmt.Errorf("URL %q: must begin with http://, https:// or h2c://", urlform.Redact(text))
	case address.Hostname() == "":
		return nil, fmt.Errorf("URL %q: it has no host", urlform.Redact(text))
	case address.User != nil || strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.Fragment != "":
		return nil, fmt.Errorf("URL %q: must be scheme, host and port only, as servers get the path that was asked for", urlform.Redact(text))
	}
	return address, nil
}

// routeFor returns the route of a request to a host, or nil if there is none.
func (g *Gateway) routeFor(host string, req *http.Request) *route {
	path := req.URL.EscapedPath()
	for _, r := range g.routes {
		if r.hasHost(host) && r.hasPath(path) {
			return r
		}
	}
	return nil
}

func (r *route) hasHost(host string) bool {
	if r.below != "" {
		return len(host) > len(r.below) && strings.HasSuffix(host, r.below)
	}
	return r.host == "" || r.host == host
}

func (r *route) hasPath(path string) bool {
	return strings.HasPrefix(path, r.path) && (len(path) == len(r.path) || path[len(r.path)] == '/')
}
