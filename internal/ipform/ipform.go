// Package ipform defines the canonical form in which client addresses are counted and compared.
package ipform

import "net/netip"

// Prefixes of IPv6 addresses that embed an IPv4 address.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056: the address follows the prefix
)

var sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598

// Canonical returns an address without its zone. For an IPv4-mapped, NAT64 or 6to4 address it returns the embedded
// IPv4 address. Clients behind a NAT64 have one IPv4 address each, so they must not be counted as one network. A
// client with a 6to4 network has one IPv4 address, whichever of its 65,536 /64 networks it uses.
//
// Private and other local IPv4 addresses are not extracted from NAT64 and 6to4 addresses, which must not contain any:
// the operator's own networks, such as 10.0.0.0/8, never match a client from elsewhere.
func Canonical(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if v4, ok := embedded(a); ok && isPublic(v4) {
		return v4
	}
	return a
}

func embedded(a netip.Addr) (netip.Addr, bool) {
	var at int // where the IPv4 address begins
	switch {
	case nat64.Contains(a):
		at = 12
	case sixTo4.Contains(a):
		at = 2
	default:
		return netip.Addr{}, false
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[at : at+4])), true
}

func isPublic(v4 netip.Addr) bool {
	return v4.IsGlobalUnicast() && !v4.IsPrivate() && !sharedSpace.Contains(v4)
}

// Network returns the network that identifies a client: its IPv4 address, or the first bits of its IPv6 address.
func Network(a netip.Addr, bits int) netip.Prefix {
	a = Canonical(a)
	if a.Is4() || nat64.Contains(a) { // its prefix says nothing about the client
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// ClientBits is how many bits of an IPv6 address distinguish clients by default.
const ClientBits = 64

// HasClients reports whether a canonical network contains the address of a client, where that is the first of its
// network of ClientBits. A single IPv6 address usually does not.
func HasClients(p netip.Prefix) bool {
	return p.Bits() <= ClientBits || p.Contains(Network(p.Addr(), ClientBits).Addr())
}

// CanonicalNetwork returns a network in the form that contains canonical addresses. ok is false for a network that
// contains all or many of the addresses that embed IPv4 addresses: hardly any canonical address is in it.
func CanonicalNetwork(p netip.Prefix) (_ netip.Prefix, ok bool) {
	p = p.Masked()
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), true
	}
	for _, prefix := range []netip.Prefix{nat64, sixTo4} {
		if p.Bits() < prefix.Bits() || !prefix.Contains(p.Addr()) {
			continue
		}
		bits := p.Bits() - prefix.Bits()
		if bits < 8 {
			return p, false
		}
		if v4, _ := embedded(p.Addr()); isPublic(v4) {
			return netip.PrefixFrom(v4, min(bits, 32)), true
		}
	}
	return p, true
}
