package rules

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
)

// A valuePattern is what a match asks of an attribute's value:
//
//	gold           this value, to the letter
//	team-*         `*` stands for any characters, also none; `*` alone for any value
//	10.0.0.0/8     an address in this network
//	2001:db8::1    this address, however it is written
//
// An address that stands for a public IPv4 address (NAT64 64:ff9b::c000:201, 6to4 2002:c000:201::1)
// counts as that, as does any that is written as IPv6 (::ffff:10.0.0.1). A zone is ignored.
type valuePattern struct {
	text    string
	network netip.Prefix // valid: an address or a network, otherwise text
	wild    bool         // text has a `*`
}

// Bounds of a pattern. They bound the time that fitting it takes.
const (
	maxPatternLength = 1024
	maxWildcards     = 8
)

func parsePattern(text string) (valuePattern, error) {
	p := valuePattern{text: text, wild: strings.Contains(text, "*")}
	switch {
	case text == "":
		return p, fmt.Errorf(`the value is empty; * stands for any value, and a missing one is for when: name == ""`)
	case len(text) > maxPatternLength:
		return p, fmt.Errorf("the value %.32q… has %d bytes; at most %d", text, len(text), maxPatternLength)
	case strings.Count(text, "*") > maxWildcards:
		return p, fmt.Errorf("the value %.64q has %d wildcards; at most %d", text, strings.Count(text, "*"), maxWildcards)
	}
	if p.wild {
		return p, nil
	}
	network, err := parseNetwork(text)
	p.network = network
	return p, err
}

// parseNetwork returns the network that the text names, or the zero Prefix if it is some other
// text. What begins like a network must be one: it would be a value that never comes.
func parseNetwork(text string) (netip.Prefix, error) {
	address, length, slashed := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, nil
	}
	if !slashed {
		addr = ipform.Canonical(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("the network %.64q has length %.16q; it must be a number from 0 to %d", text, length, addr.BitLen())
	}
	if masked := network.Masked(); masked != network {
		return netip.Prefix{}, fmt.Errorf("the network %q has bits beyond its length; write %v for the network or %v for the address", text, masked, addr)
	}
	canonical, ok := ipform.CanonicalNetwork(network)
	if !ok {
		return netip.Prefix{}, fmt.Errorf("the network %q is never matched: its addresses count as the IPv4 addresses that are embedded in them; name IPv4 networks", text)
	}
	return canonical, nil
}

// parseValueAddr reads an attribute's value as an address in the form that networks are held in.
func parseValueAddr(value string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, false
	}
	return ipform.Canonical(addr), true
}

// canonicalAddress writes the value of ip in the one form that rules know.
func canonicalAddress(value string) string {
	if strings.IndexByte(value, ':') < 0 {
		return value // IPv4 is written in one way only
	}
	addr, ok := parseValueAddr(value)
	if !ok {
		return value
	}
	return addressText(addr, value)
}

// networkOf writes the network of so many bits around the address that a value is. Another value is
// its own.
func networkOf(value string, bits int) string {
	addr, ok := parseValueAddr(value)
	if !ok {
		return value
	}
	network := ipform.Network(addr, bits)
	if network.IsSingleIP() {
		return addressText(network.Addr(), value)
	}
	return network.String()
}

// addressText writes an address, without a new string if the value reads the same.
func addressText(addr netip.Addr, value string) string {
	var buffer [64]byte
	if written := addr.AppendTo(buffer[:0]); string(written) != value {
		return string(written)
	}
	return value
}

// fits tells whether a value is what the pattern asks for.
func (p *valuePattern) fits(v *value) bool {
	switch {
	case p.network.IsValid():
		addr, ok := parseValueAddr(v.text)
		return ok && p.network.Contains(addr)
	case p.wild:
		return fitsWildcards(p.text, v.text)
	}
	return p.text == v.text
}

// fitsWildcards takes each literal piece at its first place after the one before: if that does not
// do, no later place does.
func fitsWildcards(pattern, text string) bool {
	first, pattern, _ := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		piece, rest, more := strings.Cut(pattern, "*")
		if !more {
			return strings.HasSuffix(text, piece)
		}
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text, pattern = text[at+len(piece):], rest
	}
}

// affixes returns the literal text before the first wildcard and after the last.
func (p *valuePattern) affixes() (prefix, suffix string) {
	return p.text[:strings.IndexByte(p.text, '*')], p.text[strings.LastIndexByte(p.text, '*')+1:]
}
