// Package blocklist holds the keys that operators have blocked: clients whose requests are denied for a time, whatever
// the rules say. The engine consults it before the rules.
package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/ipform"
)

// Bounds of blocks.
const (
	MaxBlocks = 1000 // in force at the same time
	MaxText   = 500  // bytes of a reason or an author

	MinLength = time.Second
	MaxLength = 30 * 24 * time.Hour // a client that is to be denied for longer belongs on the deny list of the rules
)

// A Block denies all requests with a value of an attribute, for a time.
type Block struct {
	ID        string    `json:"id"`
	Domain    string    `json:"domain,omitempty"` // "": every domain
	Attribute string    `json:"attribute"`
	Value     string    `json:"value"` // in the form of [Canonical]; a network stands for the addresses in it
	Reason    string    `json:"reason"`
	Author    string    `json:"author"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	LiftedBy  string    `json:"lifted_by,omitempty"` // who ended it before Until; "": nobody
}

// Holds reports whether the block is in force at a time.
func (b *Block) Holds(at time.Time) bool { return b.LiftedBy == "" && at.Before(b.Until) }

// SameKey reports whether two blocks are of the same key.
func (b *Block) SameKey(c *Block) bool {
	return b.Domain == c.Domain && b.Attribute == c.Attribute && b.Value == c.Value
}

// Validate reports everything that is wrong with a block.
func (b *Block) Validate() error {
	var errs []error
	text := func(name, value string, least, most int) {
		switch {
		case len(value) < least || len(value) > most:
			errs = append(errs, fmt.Errorf("%s has %d bytes, must have from %d to %d", name, len(value), least, most))
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			errs = append(errs, fmt.Errorf("%s has control characters or is not UTF-8", name))
		}
	}
	text("id", b.ID, 1, 64)
	text("domain", b.Domain, 0, bounds.Domain)
	text("attribute", b.Attribute, 1, bounds.AttributeName)
	text("value", b.Value, 1, bounds.AttributeValue)
	text("reason", b.Reason, 1, MaxText)
	text("author", b.Author, 1, MaxText)
	text("lifted_by", b.LiftedBy, 0, MaxText)
	if length := b.Until.Sub(b.From); length < MinLength || length > MaxLength {
		errs = append(errs, fmt.Errorf("it lasts %v, must last from %v to %v", length, MinLength, MaxLength))
	}
	return errors.Join(errs...)
}

// IsNetwork reports whether a value is an address or a network.
func IsNetwork(value string) bool {
	_, ok := Network(value)
	return ok
}

// Canonical returns the form in which values are compared: an address or a network has one form, everything else is
// itself.
func Canonical(value string) string {
	network, ok := Network(value)
	switch {
	case !ok:
		return value
	case network.IsSingleIP():
		return network.Addr().String()
	}
	return network.String()
}

// Network returns the network that a value is. An address is a network of one.
func Network(value string) (netip.Prefix, bool) {
	if address, _, _ := strings.Cut(value, "/"); !mayBeAddress(address) {
		return netip.Prefix{}, false
	}
	if addr, err := netip.ParseAddr(value); err == nil {
		addr = ipform.Canonical(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	network, err := netip.ParsePrefix(value)
	if err != nil {
		return netip.Prefix{}, false
	}
	return ipform.CanonicalNetwork(network)
}
