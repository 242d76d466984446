package pattern

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
)

// A Value is a pattern for the value of an attribute:
//
//	gold           exactly this value
//	team-*         `*` matches any characters, also none; `*` alone matches any value
//	10.0.0.0/8     an address in this network
//	2001:db8::1    this address, however it is written
//
// An address that embeds a public IPv4 address (NAT64 64:ff9b::c000:201, 6to4 2002:c000:201::1) is treated as
// that address, and so is an IPv4-mapped one (::ffff:10.0.0.1). A zone is ignored.
type Value struct {
	Text    string
	Network netip.Prefix // if valid, an address or a network; otherwise text
	Wild    bool         // text has a `*`
}

// Bounds of a pattern. They bound the time that matching takes.
const (
	maxPatternLength = 1024
	maxWildcards     = 8
)

// ParseValue reads one value of a match.
func ParseValue(text string) (Value, error) {
	p := Value{Text: text, Wild: strings.Contains(text, "*")}
	switch {
	case text == "":
		return p, fmt.Errorf(`the value is empty; * stands for any value, and a missing one is for when: name == ""`)
	case len(text) > maxPatternLength:
		return p, fmt.Errorf("the value %.32q… has %d bytes; at most %d", text, len(text), maxPatternLength)
	case strings.Count(text, "*") > maxWildcards:
		return p, fmt.Errorf("the value %.64q has %d wildcards; at most %d", text, strings.Count(text, "*"), maxWildcards)
	}
	if p.Wild {
		return p, nil
	}
	network, err := parseNetwork(text)
	p.Network = network
	return p, err
}

// parseNetwork returns the network that the text names, or the zero Prefix for other text. Text that begins like
// a network must be one, because as a plain value it would never match.
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

// ParseAddr parses the value of an attribute as an address, in the form in which networks are stored.
func ParseAddr(value string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, false
	}
	return ipform.Canonical(addr), true
}

// Fits reports whether a value matches the pattern.
func (p *Value) Fits(text string) bool {
	switch {
	case p.Network.IsValid():
		addr, ok := ParseAddr(text)
		return ok && p.Network.Contains(addr)
	case p.Wild:
		return FitsWildcards(p.Text, text)
	}
	return p.Text == text
}

// FitsWildcards reports whether text matches a pattern with wildcards. It takes each literal piece at its first
// position after the one before: if that fails, no later position succeeds.
func FitsWildcards(pattern, text string) bool {
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

// Affixes returns the literal text before the first wildcard and after the last.
func (p *Value) Affixes() (prefix, suffix string) {
	return p.Text[:strings.IndexByte(p.Text, '*')], p.Text[strings.LastIndexByte(p.Text, '*')+1:]
}
