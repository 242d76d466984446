package storage

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
)

// A Subject identifies the state that a group charges. It is a 128-bit keyed hash of the domain, the rule and
// the values of the rule's key attributes for one client. It carries no personal data.
type Subject [16]byte

// String returns the subject as 22 characters of URL-safe base64, the form used in Redis keys.
func (s Subject) String() string { return base64.RawURLEncoding.EncodeToString(s[:]) }

// An Attribute is a named property of a request.
type Attribute struct{ Name, Value string }

// A Hasher makes subjects, and names of requests that no client can forge. All nodes that share a store must
// share its secret.
type Hasher struct{ subjects, calls [2]uint64 }

// builtinSecret keys the hash if no secret is configured. It still spreads keys, but a reader of the store
// can then test whether a known name is in it.
const builtinSecret = "penstock: no key_secret given"

// NewHasher returns a Hasher keyed by the secret, of any length.
func NewHasher(secret string) Hasher {
	if secret == "" {
		secret = builtinSecret
	}
	sum := sha256.Sum256([]byte(secret))
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(sum[8*i:]) }
	return Hasher{subjects: [2]uint64{word(0), word(1)}, calls: [2]uint64{word(2), word(3)}}
}

// Subject hashes an encoding that can be read back, so that different parts never encode alike: ("ab", "c") is
// not ("a", "bc"). It combines Rule and RuleHasher.Subject.
func (h Hasher) Subject(domain, rule string, key ...Attribute) Subject {
	s := newSipHash(h.subjects[0], h.subjects[1])
	s.writePart(domain)
	s.writePart(rule)
	s.writeNumber(uint64(len(key)))
	for i := range key {
		s.writePart(key[i].Name)
	}
	s.pad()
	tag := tagOf(&s)
	if len(key) == 0 {
		return tag.subject(s.sumWith(""))
	}
	last := len(key) - 1
	for i := range last {
		s.writePart(key[i].Value)
	}
	s.pad()
	return tag.subject(s.sumWith(key[last].Value))
}

// Rule hashes what all subjects of a rule share: its domain, its name, and the names of its key attributes.
func (h Hasher) Rule(domain, rule string, key ...string) RuleHasher {
	s := newSipHash(h.subjects[0], h.subjects[1])
	s.writePart(domain)
	s.writePart(rule)
	s.writeNumber(uint64(len(key)))
	for _, name := range key {
		s.writePart(name)
	}
	s.pad()
	return RuleHasher{state: s, tag: tagOf(&s)}
}

// A RuleHasher makes the subjects of one rule.
type RuleHasher struct {
	state sipHash
	tag   RuleTag
}

// A RuleTag is the prefix of all subjects of a rule, so that they can be listed. The other 96 bits still
// distinguish 500 million clients of one rule: the probability that two of them share a subject is 2^-40.
type RuleTag [4]byte

func tagOf(rule *sipHash) (tag RuleTag) {
	low, _ := rule.sumWith("")
	binary.LittleEndian.PutUint32(tag[:], uint32(low))
	return tag
}

// subject returns the subject of this rule with the given hash. It is put together in words, because reading a
// word soon after writing a part of it is slow.
func (t RuleTag) subject(low, high uint64) Subject {
	return bytes16(t.mark(low), high)
}

// mark replaces the first bytes of a hash with the tag.
func (t RuleTag) mark(low uint64) uint64 {
	return low&^math.MaxUint32 | uint64(binary.LittleEndian.Uint32(t[:]))
}

// Number returns a number that distinguishes the rule from others. Among 100,000 rules, two have the same
// number with probability 2^-31; tags are too short for that.
func (r *RuleHasher) Number() uint64 {
	low, _ := r.state.sumWith("")
	return bits.ReverseBytes64(low)
}

// Tag returns the prefix of the rule's subjects.
func (r *RuleHasher) Tag() RuleTag { return r.tag }

// Tag returns the tag of the subject's rule.
func (s Subject) Tag() RuleTag { return RuleTag(s[:4]) }

// Subject returns the subject with the given values of the rule's key attributes, in their order.
func (r *RuleHasher) Subject(values ...string) Subject {
	if len(values) == 1 {
		return r.tag.subject(r.state.sumWith(values[0]))
	}
	if len(values) == 0 {
		return r.tag.subject(r.state.sumWith(""))
	}
	s, last := r.state, len(values)-1
	for _, value := range values[:last] {
		s.writePart(value)
	}
	s.pad()
	return r.tag.subject(s.sumWith(values[last]))
}

// Words returns the subject of one value as two little-endian words.
func (r *RuleHasher) Words(value string) (low, high uint64) {
	low, high = r.state.sumWith(value)
	return r.tag.mark(low), high
}

// The encoding is: domain, rule, number of names, the names, zeros up to a whole word; the values except the
// last, zeros again; the last value. Every part but the last is preceded by its length in the fewest bytes, so
// there is only one way to split the whole into parts. The last value begins with a word, which makes its hash
// cheap: nearly every key has a single value.

func (h *sipHash) writePart(s string) {
	h.writeNumber(uint64(len(s)))
	h.writeString(s)
}

func (h *sipHash) writeNumber(n uint64) {
	for ; n >= 0x80; n >>= 7 {
		h.writeByte(byte(n) | 0x80)
	}
	h.writeByte(byte(n))
}

// A CallID is the hash of the ID that a client gave to its request: the same ID means the same request. It is
// not the limit's key.
type CallID [16]byte

// Call hashes a client's request ID of any length. The zero CallID means none and is never returned. Clients see
// parts of such hashes as checksums, so it has more rounds than the hash of subjects, and a key of its own.
func (h Hasher) Call(id string) CallID {
	low, high := sip24(h.calls[0], h.calls[1], id)
	return bytes16(low|1, high)
}
