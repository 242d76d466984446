package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/urlform"
)

// screen refuses requests that are ambiguous or too large. It normalises the others in place, URL and headers, so
// that the limiter and the server see the same. A request with a body must be the exchange's own copy.
func (g *Gateway) screen(x *exchange, req *http.Request) *problem.Document {
	if !httpguts.ValidHeaderFieldName(req.Method) { // a token, like the name of a header
		return problemOf(http.StatusBadRequest, fmt.Sprintf("invalid method %.64q", req.Method))
	}
	if req.Method == http.MethodConnect {
		return problemOf(http.StatusNotImplemented, "CONNECT is not supported.")
	}
	if (req.Method == http.MethodTrace || req.Method == "TRACK") && !g.trace {
		return problemOf(http.StatusNotImplemented, req.Method+" is not supported.")
	}
	if req.Host != "" || req.ProtoAtLeast(1, 1) {
		host, err := urlform.Host(req.Host)
		if err != nil {
			return problemOf(http.StatusBadRequest, err.Error())
		}
		x.name = host
	}
	if p := g.screenPath(req); p != nil {
		return p
	}
	if p := g.screenQuery(req); p != nil {
		return p
	}
	if p := g.screenHeader(x, req.Header); p != nil {
		return p
	}
	x.route = g.routeFor(x.name, req)
	return g.screenBody(x, req)
}

func (g *Gateway) screenPath(req *http.Request) *problem.Document {
	path := req.URL.EscapedPath()
	if path != "" && path[0] != '/' {
		return problemOf(http.StatusBadRequest, "The path does not begin with a slash.")
	}
	normal, err := httplimit.NormalizePath(path)
	if err != nil {
		return pathUnclear()
	}
	if !g.keepSlashes && strings.Contains(normal, "%2F") {
		return problemOf(http.StatusBadRequest, "The path has an escaped slash (%2F), which servers interpret differently.")
	}
	if normal == path {
		return nil
	}
	u := *req.URL
	u.RawPath = normal
	if u.Path, err = url.PathUnescape(normal); err != nil || u.EscapedPath() != normal {
		return pathUnclear()
	}
	req.URL = &u
	return nil
}

func pathUnclear() *problem.Document {
	return problemOf(http.StatusBadRequest, "The path cannot be normalised: servers may interpret it differently.")
}

// screenQuery refuses queries that servers interpret differently.
func (g *Gateway) screenQuery(req *http.Request) *problem.Document {
	query := req.URL.RawQuery
	if query == "" {
		return nil
	}
	if strings.Count(query, "&") >= g.limits.MaxQueryParameters {
		return problemOf(http.StatusBadRequest, "The query has too many parameters.")
	}
	for i := 0; i < len(query); i++ {
		switch c := query[i]; {
		case c == ';':
			return problemOf(http.StatusBadRequest, "The query has a semicolon; separate parameters with &, and write ; as %3B.")
		case c == '%' && (i+2 >= len(query) || !isHex(query[i+1]) || !isHex(query[i+2])):
			return problemOf(http.StatusBadRequest, "The query has an invalid percent escape; write % as %25.")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// screenBody limits the size of the body.
func (g *Gateway) screenBody(x *exchange, req *http.Request) *problem.Document {
	if !hasBody(req) {
		return nil
	}
	limit := g.limits.MaxBody
	if x.route != nil {
		limit = x.route.maxBody
	}
	if limit > 0 {
		if req.ContentLength > limit {
			return bodyTooLarge()
		}
		x.body.Limit(limit)
	}
	return nil
}

func bodyTooLarge() *problem.Document {
	return problemOf(http.StatusRequestEntityTooLarge, "The request body is too large.")
}
