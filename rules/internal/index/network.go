package index

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

// Addresses are compared as 128 bits; an IPv4 network lies among the IPv6 ones as ::ffff:0:0/96.

// networkText is a network as a text: its address, then how many bits of it count.
func networkText(network netip.Prefix) string {
	addr := network.Addr()
	b := addr.As16()
	return string(b[:]) + string([]byte{byte(128 - addr.BitLen() + network.Bits())})
}

// addressBits are those of an address.
type addressBits struct {
	high, low uint64
	narrow    bool // IPv4
}

func bitsOf(addr netip.Addr) addressBits {
	b := addr.As16()
	return addressBits{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), addr.Is4()}
}

// masked returns the first bits, as many as that; the rest is 0.
func (a addressBits) masked(length int32) (high, low uint64) {
	return a.high &^ (^uint64(0) >> min(length, 64)), a.low &^ (^uint64(0) >> max(length-64, 0))
}

// within tells whether an address is in a network. An IPv4 address is only in those of its kind.
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

// networkHash is that of the network of so many bits around an address, for a look.
func networkHash(a addressBits, length int32, look uint32) uint64 {
	high, low := a.masked(length)
	return mixed(high^uint64(look)<<32, low)
}

// canonicalAddress writes the value of ip in the one form that rules know.
func canonicalAddress(value string) string {
	if strings.IndexByte(value, ':') < 0 {
		return value // IPv4 is written in one way only
	}
	addr, ok := pattern.ParseAddr(value)
	if !ok {
		return value
	}
	return addressText(addr, value)
}

// networkOf writes the network of so many bits around the address that a value is. Another value is
// its own.
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

// addressText writes an address, without a new string if the value reads the same.
func addressText(addr netip.Addr, value string) string {
	var buffer [64]byte
	if written := addr.AppendTo(buffer[:0]); string(written) != value {
		return string(written)
	}
	return value
}
