package index

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Addresses are compared as 128 bits. IPv4 networks are mapped into IPv6 as ::ffff:0:0/96.

// networkText encodes a network as a text: its address, then the prefix length.
func networkText(network netip.Prefix) string {
	addr := network.Addr()
	b := addr.As16()
	return string(b[:]) + string([]byte{byte(128 - addr.BitLen() + network.Bits())})
}

// addressBits are the bits of an address.
type addressBits struct {
	high, low uint64
	narrow    bool // IPv4
}

func bitsOf(addr netip.Addr) addressBits {
	b := addr.As16()
	return addressBits{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), addr.Is4()}
}

// masked returns the first length bits; the rest is 0.
func (a addressBits) masked(length int32) (high, low uint64) {
	return a.high &^ (^uint64(0) >> min(length, 64)), a.low &^ (^uint64(0) >> max(length-64, 0))
}

// within reports whether an address is in a network. An IPv4 address is only in IPv4 networks.
func (a addressBits) within(network string) bool {
	length := int32(network[16])
	if a.narrow && length < 96 {
		return false
	}
	high, low := a.masked(length)
	return high == bigEndian(network) && low == bigEndian(network[8:])
}

func bigEndian(text string) (n uint64) {
	for i := range 8 {
		n = n<<8 | uint64(text[i])
	}
	return n
}

// networkHash returns the hash of the network of length bits around an address, for a look.
func networkHash(a addressBits, length int32, look uint32) uint64 {
	high, low := a.masked(length)
	return mixed(high^uint64(look)<<32, low)
}

// canonicalAddress formats the value of ip in the form that rules use.
func canonicalAddress(value string) string {
	if strings.IndexByte(value, ':') < 0 {
		return value // an IPv4 address has only one form
	}
	addr, ok := pattern.ParseAddr(value)
	if !ok {
		return value
	}
	return addressText(addr, value)
}

// networkOf formats the network of bits bits around the address in value. A value that is not an address is
// returned as it is.
func networkOf(value string, bits int) string {
	addr, ok := pattern.ParseAddr(value)
	if !ok {
		return value
	}
	network := ipform.Network(addr, bits)
	if network.IsSingleIP() {
		return addressText(network.Addr(), value)
	}
	return network.String()
}

// addressText formats an address, without a new string if value is already in that form.
func addressText(addr netip.Addr, value string) string {
	var buffer [64]byte
	if written := addr.AppendTo(buffer[:0]); string(written) != value {
		return string(written)
	}
	return value
}
