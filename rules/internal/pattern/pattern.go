package pattern

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
)

// A Value is what a match asks of an attribute's value:
//
//	gold           this value, to the letter
//	team-*         `*` stands for any characters, also none; `*` alone for any value
//	10.0.0.0/8     an address in this network
//	2001:db8::1    this address, however it is written
//
// An address that stands for a public IPv4 address (NAT64 64:ff9b::c000:201, 6to4 2002:c000:201::1)
// counts as that, as does any that is written as IPv6 (::ffff:10.0.0.1). A zone is ignored.
type Value struct {
	Text    string
	Network netip.Prefix // valid: an address or a network, otherwise text
	Wild    bool         // text has a `*`
}

// Bounds of a pattern. They bound the time that fitting it takes.
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

// ParseAddr reads an attribute's value as an address in the form that networks are held in.
func ParseAddr(value string) (addr netip.Addr, ok bool) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, false
	}
	return ipform.Canonical(addr), true
}

// Fits tells whether a value is what the pattern asks for.
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

// FitsWildcards takes each literal piece at its first place after the one before: if that does not
// do, no later place does.
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
