package denycache

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A key says whose state of which limit it is. All of a limit's numbers are in it: weighed by other
// numbers, a state that was brought up to date would say something else.
type key struct {
	subject     storage.Subject
	fingerprint uint64 // 0: an entry that is free
	count       int64
	capacity    int64
	overdraft   int64
}

const given = 1 << 63 // in a key's fingerprint, which has 56 bits: time is the tickets' own

// keyOf returns the key of a charge's state.
func keyOf(t *storage.Ticket, g *storage.Group, m *algorithm.Meter) key {
	return key{g.Subject, timed(t, m.Fingerprint), m.Count, m.Capacity, m.Overdraft}
}

// banOf returns the key of a group's ban, whose state is its end and how many there were.
func banOf(t *storage.Ticket, g *storage.Group) key {
	return key{subject: g.Subject, fingerprint: timed(t, algorithm.PenaltyFingerprint)}
}

func timed(t *storage.Ticket, fingerprint uint64) uint64 {
	if t.Now != 0 {
		return fingerprint | given
	}
	return fingerprint
}

// told says when the store answered: by its own clock, and by the cache's just before and after.
type told struct {
	at          penstock.Instant
	sent, heard penstock.Instant
}

type entry struct {
	key
	told
	state algorithm.State // of a ban: At is its end, Used how many bans there were
}

const ways = 8

// A set is all entries of the subjects that share it.
type set struct {
	mu         sync.Mutex
	generation uint64 // grows whenever a subject is forgotten
	entries    [ways]entry
}

// find returns the entry of a key, or nil.
func (s *set) find(k key) *entry {
	for i := range s.entries {
		if e := &s.entries[i]; e.key == k {
			return e
		}
	}
	return nil
}

// put keeps an entry, in the place of the one asked for longest ago if it must be.
func (s *set) put(e entry) {
	at := s.find(e.key)
	if at == nil {
		at = s.oldest()
	}
	*at = e
}

// oldest returns the entry that is missed least. One that is free was asked for before any other.
func (s *set) oldest() *entry {
	at := &s.entries[0]
	for i := range s.entries {
		if s.entries[i].sent < at.sent {
			at = &s.entries[i]
		}
	}
	return at
}

// A table is where entries are.
type table struct{ sets []set } // a power of two

func newTable(entries int) table {
	return table{make([]set, 1<<(bits.Len(uint(entries/ways))-1))}
}

// of returns a subject's set. The end of a subject is a keyed hash; its beginning is its rule's.
func (t *table) of(s *storage.Subject) *set {
	return &t.sets[binary.LittleEndian.Uint64(s[8:])&uint64(len(t.sets)-1)]
}

// generations returns those of the sets of a ticket's subjects.
func (t *table) generations(ticket *storage.Ticket) (all [maxGroups]uint64) {
	for i := range ticket.Groups {
		s := t.of(&ticket.Groups[i].Subject)
		s.mu.Lock()
		all[i] = s.generation
		s.mu.Unlock()
	}
	return all
}

// forget drops all entries of a subject, and those that were asked for before now.
func (t *table) forget(subject storage.Subject) {
	s := t.of(&subject)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	for i := range s.entries {
		if s.entries[i].subject == subject {
			s.entries[i] = entry{}
		}
	}
}

func (t *table) count() (n int64) {
	for i := range t.sets {
		s := &t.sets[i]
		s.mu.Lock()
		for j := range s.entries {
			if s.entries[j].fingerprint != 0 {
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}
