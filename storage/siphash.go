package storage

import (
	"encoding/binary"
	"math/bits"
)

// sipHash is SipHash-1-3 with 128 bits of output, fed piece by piece. It is a keyed function: without the key
// it is infeasible to find two subjects that share a counter, or to recover a subject's name from its hash by
// trying names. Rounds are written one by one, and not in loops, so that the state stays in registers.
type sipHash struct {
	v0, v1, v2, v3 uint64
	pending        uint64 // bytes that do not yet fill a word, little-endian
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

// sipRound is small enough to be inlined, so that the state stays in registers.
func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v2 += v1
	v0 = bits.RotateLeft64(v0, 32) + v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}

func (h *sipHash) word(w uint64) {
	v0, v1, v2, v3 := sipRound(h.v0, h.v1, h.v2, h.v3^w)
	h.v0, h.v1, h.v2, h.v3 = v0^w, v1, v2, v3
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
	pending, v0, v1, v2, v3 := h.pending, h.v0, h.v1, h.v2, h.v3
	for ; len(s) >= 8; s = s[8:] {
		next := word64(s)
		w := pending | next<<shift
		pending = next >> (64 - shift) // a shift by 64 is 0 in Go
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^w)
		v0 ^= w
	}
	if n := uint64(8 * len(s)); n > 0 {
		next := tail64(s)
		w := pending | next<<shift
		if shift+n >= 64 {
			pending = next >> (64 - shift)
			v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^w)
			v0 ^= w
		} else {
			pending = w
		}
	}
	h.pending, h.v0, h.v1, h.v2, h.v3 = pending, v0, v1, v2, v3
}

// pad writes zeros up to the end of the word.
func (h *sipHash) pad() {
	if h.length&7 != 0 {
		h.word(h.pending)
		h.pending = 0
		h.length = (h.length + 7) &^ 7
	}
}

// sumWith returns the hash of what was written, which must be whole words, and s.
func (h *sipHash) sumWith(s string) (low, high uint64) {
	w := (h.length + uint64(len(s))) << 56
	v0, v1, v2, v3 := h.v0, h.v1, h.v2, h.v3
	for ; len(s) >= 8; s = s[8:] {
		next := word64(s)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^next)
		v0 ^= next
	}
	if len(s) > 0 {
		w |= tail64(s)
	}
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3^w)
	v0, v1, v2, v3 = sipRound(v0^w, v1, v2^0xee, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	low = v0 ^ v1 ^ v2 ^ v3
	v0, v1, v2, v3 = sipRound(v0, v1^0xdd, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return low, v0 ^ v1 ^ v2 ^ v3
}

// sip24 is SipHash-2-4 with 128 bits, for what clients must not be able to forge.
func sip24(k0, k1 uint64, s string) (low, high uint64) {
	h := newSipHash(k0, k1)
	w := uint64(len(s)) << 56
	for ; len(s) >= 8; s = s[8:] {
		h.word2(word64(s))
	}
	if len(s) > 0 {
		w |= tail64(s)
	}
	h.word2(w)
	h.v2 ^= 0xee
	low = h.finish4()
	h.v1 ^= 0xdd
	return low, h.finish4()
}

// word2 is word with two rounds.
func (h *sipHash) word2(w uint64) {
	v0, v1, v2, v3 := sipRound(h.v0, h.v1, h.v2, h.v3^w)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	h.v0, h.v1, h.v2, h.v3 = v0^w, v1, v2, v3
}

// finish4 runs four rounds and returns a half of the hash.
func (h *sipHash) finish4() uint64 {
	for range 4 {
		h.v0, h.v1, h.v2, h.v3 = sipRound(h.v0, h.v1, h.v2, h.v3)
	}
	return h.v0 ^ h.v1 ^ h.v2 ^ h.v3
}

// word64 returns the first 8 bytes of s, little-endian. The compiler turns it into one load.
func word64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// tail64 is word64 for 1 to 7 bytes, padded with zeros. It loads from both ends, and the loads overlap.
func tail64(s string) uint64 {
	n := len(s)
	if n >= 4 {
		low := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
		high := uint64(s[n-4]) | uint64(s[n-3])<<8 | uint64(s[n-2])<<16 | uint64(s[n-1])<<24
		return low | high<<(8*(n-4))
	}
	return uint64(s[0]) | uint64(s[n/2])<<(8*(n/2)) | uint64(s[n-1])<<(8*(n-1))
}

// bytes16 returns two words as bytes, little-endian.
func bytes16(low, high uint64) (b [16]byte) {
	binary.LittleEndian.PutUint64(b[:8], low)
	binary.LittleEndian.PutUint64(b[8:], high)
	return b
}
