package memstore

import (
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// hotKeys hashes the keys of a rule, and remembers the hashes of hot keys: a hash takes a quarter of a decision, and
// comparing a key with one that was hashed before takes little.
type hotKeys struct {
	rule   storage.RuleHasher
	recent [1 << hotKeyBits]atomic.Pointer[hotKey]
}

// A hotKey is a key and the words of its hash. It is never changed.
type hotKey struct {
	key       string
	low, high uint64
}

const (
	hotKeyBits   = 6
	maxHotKey    = 128 // bytes
	rememberOnce = 64  // in this many requests, so that keys that share an entry do not replace each other all the time
)

// words returns the words of a key's hash. If they were not remembered, it also returns the entry for the key.
func (h *hotKeys) words(key string) (low, high uint64, entry *atomic.Pointer[hotKey]) {
	if uint(len(key)-8) > maxHotKey-8 {
		low, high = h.rule.Words(key)
		return low, high, nil
	}
	const odd = 0x9e3779b97f4a7c15
	end := key[len(key)-8:] // where the addresses and the ids of clients differ most
	entry = &h.recent[word(end)*odd>>(64-hotKeyBits)]
	if hot := entry.Load(); hot != nil && hot.key == key {
		return hot.low, hot.high, nil
	}
	low, high = h.rule.Words(key)
	return low, high, entry
}

// word returns 8 bytes as a number.
func word(s string) uint64 { return binary.LittleEndian.Uint64([]byte(s)) }

// remember puts a hot key into its entry, in place of another, once in a while. It copies the key, whose memory may be
// the caller's.
func (h *hotKeys) remember(entry *atomic.Pointer[hotKey], key string, low, high uint64, now algorithm.Instant) {
	if now%rememberOnce == 0 {
		entry.Store(&hotKey{strings.Clone(key), low, high})
	}
}
