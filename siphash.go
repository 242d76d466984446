package penstock

import (
	"encoding/binary"
	"math/bits"
)

// sipHash is SipHash-2-4 with 128 bits of output, fed piece by piece. It is a keyed function:
// without the key nobody can find two subjects that share a counter, or a subject's name from its
// hash by trying names.
type sipHash struct {
	v0, v1, v2, v3 uint64
	pending        uint64 // bytes that do not fill a word yet, little-endian
	length         uint64
}

func newSipHash(k0, k1 uint64) sipHash {
	return sipHash{
		v0: k0 ^ 0x736f6d6570736575,
		v1: k1 ^ 0x646f72616e646f6d ^ 0xee,
		v2: k0 ^ 0x6c7967656e657261,
		v3: k1 ^ 0x7465646279746573,
	}
}

func (h *sipHash) round() {
	h.v0 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 13) ^ h.v0
	h.v0 = bits.RotateLeft64(h.v0, 32)
	h.v2 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 16) ^ h.v2
	h.v0 += h.v3
	h.v3 = bits.RotateLeft64(h.v3, 21) ^ h.v0
	h.v2 += h.v1
	h.v1 = bits.RotateLeft64(h.v1, 17) ^ h.v2
	h.v2 = bits.RotateLeft64(h.v2, 32)
}

func (h *sipHash) word(w uint64) {
	h.v3 ^= w
	h.round()
	h.round()
	h.v0 ^= w
}

func (h *sipHash) writeByte(b byte) {
	h.pending |= uint64(b) << (8 * (h.length & 7))
	h.length++
	if h.length&7 == 0 {
		h.word(h.pending)
		h.pending = 0
	}
}

func (h *sipHash) writeString(s string) {
	shift := 8 * (h.length & 7)
	h.length += uint64(len(s))
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h.word(h.pending | w<<shift)
		h.pending = w >> (64 - shift) // a shift by 64 is 0 in Go
	}
	for i := 0; i < len(s); i++ {
		h.pending |= uint64(s[i]) << shift
		if shift += 8; shift == 64 {
			h.word(h.pending)
			h.pending, shift = 0, 0
		}
	}
}

func (h *sipHash) sum() (out [16]byte) {
	h.word(h.length<<56 | h.pending)
	h.v2 ^= 0xee
	for range 4 {
		h.round()
	}
	binary.LittleEndian.PutUint64(out[:8], h.v0^h.v1^h.v2^h.v3)
	h.v1 ^= 0xdd
	for range 4 {
		h.round()
	}
	binary.LittleEndian.PutUint64(out[8:], h.v0^h.v1^h.v2^h.v3)
	return out
}
