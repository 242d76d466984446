package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
)

// ClientIP returns the client's address, without zone. An IPv4-mapped, NAT64 (64:ff9b::/96) or 6to4
// (2002::/16) address that contains a public IPv4 address is returned as that.
//
// It is the peer's address, unless the peer is a trusted proxy. Then ClientIP reads what proxies have added
// to the header from the right, over all its lines, as long as the addresses belong to trusted proxies too:
// the first that does not is the client. Anything further to the left may be forged, so it is never read.
// Text that is not an address ends the search: such clients count together as the proxy that passed it on.
func (r *Reader) ClientIP(req *http.Request) (netip.Addr, error) {
	caller, err := r.caller(req)
	return ipform.Canonical(caller.addr), err
}

// Trusts reports whether an address belongs to a trusted proxy. A NAT64 or 6to4 address is trusted as it is
// written, not for the IPv4 address in it.
func (r *Reader) Trusts(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return slices.ContainsFunc(r.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// A proxyHeader is the header in which proxies write addresses.
type proxyHeader struct {
	name string // in the canonical form of net/http
	kind headerKind
}

type headerKind uint8

const (
	addressList   headerKind = iota // X-Forwarded-For
	forwarded                       // RFC 7239
	singleAddress                   // any other
)

func proxyHeaderOf(name string) proxyHeader {
	h := proxyHeader{textproto.CanonicalMIMEHeaderKey(name), singleAddress}
	switch h.name {
	case "X-Forwarded-For":
		h.kind = addressList
	case "Forwarded":
		h.kind = forwarded
	}
	return h
}

// unmap returns a network in the form used for comparing addresses.
func unmap(p netip.Prefix) (netip.Prefix, bool) {
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), p.IsValid()
}

const noAddress = "the connection's peer has no IP address"

func (r *Reader) caller(req *http.Request) (node, error) {
	peer, ok := parseNode(req.RemoteAddr)
	if !ok {
		return node{}, refuse(http.StatusBadRequest, noAddress)
	}
	if !r.Trusts(peer.addr) {
		return peer, nil
	}
	lines := req.Header[r.proxyHeader.name]
	switch r.proxyHeader.kind {
	case addressList:
		return r.walkList(peer, lines), nil
	case forwarded:
		return r.walkForwarded(peer, lines), nil
	}
	if len(lines) == 1 { // with several, it is unknown which one the proxy wrote
		r.step(&peer, lines[0])
	}
	return peer, nil
}

// walkList returns the client, given the last known hop.
func (r *Reader) walkList(last node, lines []string) node {
	for _, line := range slices.Backward(lines) {
		for {
			comma := strings.LastIndexByte(line, ',')
			if r.step(&last, line[comma+1:]) {
				return last
			}
			if comma < 0 {
				break
			}
			line = line[:comma]
		}
	}
	return last
}

func (r *Reader) walkForwarded(last node, lines []string) node {
	for _, line := range slices.Backward(lines) {
		nodes, ok := parseForwarded(line)
		if !ok {
			return last // the boundaries of its elements are ambiguous
		}
		for _, text := range slices.Backward(nodes) {
			if r.step(&last, text) {
				return last
			}
		}
	}
	return last
}

// step moves to the address before the last, and reports whether the search ends there. If there is no
// address it ends without moving.
func (r *Reader) step(last *node, text string) (end bool) {
	n, ok := parseNode(strings.Trim(text, " \t"))
	if !ok {
		return true
	}
	*last = n
	return !r.Trusts(n.addr)
}

// A node is an address and the text it was read from.
type node struct {
	addr netip.Addr
	text string
}

// parseNode parses an address as proxies write them: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or
// [2001:db8::1]:80.
func parseNode(text string) (n node, ok bool) {
	host, port, hasPort := text, "", false
	if inner, bracket := strings.CutPrefix(text, "["); bracket {
		if host, port, ok = strings.Cut(inner, "]"); !ok || !strings.Contains(host, ":") {
			return node{}, false
		}
		if port, hasPort = strings.CutPrefix(port, ":"); !hasPort && port != "" {
			return node{}, false
		}
	} else if strings.Count(text, ":") == 1 {
		host, port, hasPort = strings.Cut(text, ":")
	}
	if hasPort && !isPort(port) {
		return node{}, false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return node{}, false
	}
	return node{addr.WithZone("").Unmap(), host}, true
}

// isPort also accepts the obfuscated ports of RFC 7239.
func isPort(text string) bool {
	if hidden, ok := strings.CutPrefix(text, "_"); ok {
		return isToken(hidden)
	}
	return len(text) >= 1 && len(text) <= 5 && strings.Trim(text, "0123456789") == ""
}

// network formats the address of the client's network, without allocating a string if possible.
func (n node) network(bits int) string {
	addr := ipform.Network(n.addr, bits).Addr()
	var buf [64]byte
	if written := addr.AppendTo(buf[:0]); string(written) != n.text {
		return string(written)
	}
	return n.text
}
