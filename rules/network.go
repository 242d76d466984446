package rules

import (
	"encoding/binary"
	"net/netip"
)

// Addresses are compared as 128 bits; an IPv4 network lies among the IPv6 ones as ::ffff:0:0/96.

// networkText is a network as a text: its address, then how many bits of it count.
func networkText(network netip.Prefix) string {
	addr := network.Addr()
	b := addr.As16()
	return string(b[:]) + string([]byte{byte(128 - addr.BitLen() + network.Bits())})
}

// within tells whether an address is in a network. An IPv4 address is only in those of its kind.
func within(network string, addr netip.Addr) bool {
	length := int32(network[16])
	if addr.Is4() && length < 96 {
		return false
	}
	high, low := masked(addr, length)
	return high == bigEndian(network) && low == bigEndian(network[8:])
}

func bigEndian(text string) (n uint64) {
	for i := range 8 {
		n = n<<8 | uint64(text[i])
	}
	return n
}

// masked returns the first bits of an address, as many as that; the rest is 0.
func masked(addr netip.Addr, length int32) (high, low uint64) {
	b := addr.As16()
	high = binary.BigEndian.Uint64(b[:8]) &^ (^uint64(0) >> min(length, 64))
	low = binary.BigEndian.Uint64(b[8:]) &^ (^uint64(0) >> max(length-64, 0))
	return high, low
}

// networkHash is that of the network of so many bits around an address.
func networkHash(addr netip.Addr, length int32) uint64 {
	high, low := masked(addr, length)
	return mixed(mixed(high, low), uint64(length))
}
