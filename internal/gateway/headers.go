package gateway

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/internal/onevalue"
	"github.com/penstock-io/penstock/internal/problem"
)

// A headerClass is what the gateway has to know about a header.
type headerClass uint8

const (
	plain    headerClass = iota
	ours                 // only Penstock sets these, for clients and servers
	whence               // says where a request comes from: trusted peers only
	single               // identifies the client or the resource: once, as servers differ in which one they use
	override             // makes servers treat the request as a different one than was counted: dropped
)

func (g *Gateway) meaningOf(name string) headerClass {
	if len(g.forwarded) > 0 && g.forwarded[name] {
		return plain
	}
	switch name {
	case g.proxyHeader:
		return whence
	case "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Http-Host-Override", "Proxy": // the last becomes HTTP_PROXY in CGI programs
		return override
	case "Ratelimit", "Ratelimit-Policy":
		return ours
	case "Forwarded", "Forwarded-For", "X-Forwarded", "Client-Ip", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Fastly-Client-Ip",
		"X-Client-Ip", "X-Cluster-Client-Ip", "X-Envoy-External-Address",
		"X-Rewrite-Url", "X-Remote-Addr", "X-Remote-Ip", "X-Originating-Ip", "X-Azure-Clientip", "X-Appengine-User-Ip", "X-Request-Id",
		"Proxy-Client-Ip", "Wl-Proxy-Client-Ip", "Wl-Proxy-Ssl", "X-Proxyuser-Ip", "X-Host", "X-Scheme", "X-Url-Scheme", "Front-End-Https":
		return whence
	case "Authorization", "Content-Type", "Idempotency-Key", "Origin", "Referer", "User-Agent", "X-Api-Key":
		return single
	}
	switch {
	case !strings.HasPrefix(name, "X-"):
		return plain
	case strings.HasPrefix(name, "X-Penstock-"), strings.HasPrefix(name, "X-Ratelimit-"):
		return ours
	case strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Original-"):
		return whence
	}
	return plain
}

// checkForwarded returns the headers that are forwarded although they would be dropped by default. They cannot
// include headers that the gateway itself writes, or that it reads the client's address from.
func (g *Gateway) checkForwarded(names []string) (map[string]bool, error) {
	forwarded := map[string]bool{}
	for _, name := range names {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fmt.Errorf("forward headers: %.64q is not the name of a header", name)
		case g.meaningOf(canonical) == ours, canonical == g.proxyHeader, canonical == "Forwarded", canonical == "X-Request-Id", strings.HasPrefix(canonical, "X-Forwarded-"):
			return nil, fmt.Errorf("forward headers: %s is set by the gateway; trust the peers whose value counts instead", name)
		}
		forwarded[canonical] = true
	}
	return forwarded, nil
}

// screenHeader removes all headers that the limiter and the server must not see. The limiter refuses requests that
// repeat a header that rules read.
func (g *Gateway) screenHeader(x *exchange, h http.Header) *problem.Document {
	g.dropListed(h)
	for name, lines := range h {
		what := g.meaningOf(name)
		for _, line := range lines {
			if onevalue.Trim(line) != line {
				return problemOf(http.StatusBadRequest, "The header "+name+" has spaces around its value, or an empty continuation line.")
			}
		}
		switch {
		case what == ours, what == override, what == whence && !x.trusted, g.isAlias(name):
			delete(h, name)
		case len(lines) < 2:
		case what == single:
			return problemOf(http.StatusBadRequest, "The header "+name+" is sent more than once.")
		}
	}
	if upgrade := h["Upgrade"]; upgrade != nil && (len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket")) {
		delete(h, "Upgrade") // for example to HTTP/2: requests inside it would not be counted
	}
	h["X-Request-Id"] = x.id
	return nil
}

// dropListed removes the headers that Connection lists, so that the limiter does not count by a header that the
// server does not get. Headers that say where a request comes from cannot be removed this way.
func (g *Gateway) dropListed(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.TrimString(name)
			if isOption(name) {
				continue
			}
			if name = textproto.CanonicalMIMEHeaderKey(name); g.meaningOf(name) != whence {
				delete(h, name)
			}
		}
	}
}

// isOption reports whether a name in Connection is an option, not a header.
func isOption(name string) bool {
	switch len(name) {
	case len("close"):
		return strings.EqualFold(name, "close")
	case len("upgrade"):
		return strings.EqualFold(name, "upgrade")
	case len("keep-alive"):
		return strings.EqualFold(name, "keep-alive")
	}
	return false
}

// isAlias reports whether servers that turn headers into variables would confuse a name with a header that matters:
// X_Forwarded_For and X.Forwarded.For become HTTP_X_FORWARDED_FOR, like the real one.
func (g *Gateway) isAlias(name string) bool {
	if !strings.ContainsFunc(name, isOdd) || g.isRead(name) {
		return false
	}
	real := textproto.CanonicalMIMEHeaderKey(strings.Map(func(r rune) rune {
		if isOdd(r) {
			return '-'
		}
		return r
	}, name))
	return g.meaningOf(real) != plain || g.isRead(real) || slices.Contains(framing, real)
}

var framing = []string{"Connection", "Content-Length", "Cookie", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func isOdd(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// isRead reports whether rules read the header.
func (g *Gateway) isRead(name string) bool {
	for _, source := range g.sources() {
		if source.Header != "" && strings.EqualFold(source.Header, name) {
			return true
		}
	}
	return false
}
