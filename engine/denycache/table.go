package denycache

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A key identifies the state of one limit for one subject. It includes all numbers of the limit: under other
// numbers, a state that was brought up to date would mean something else.
type key struct {
	subject     storage.Subject
	fingerprint uint64 // 0: a free entry
	count       int64
	capacity    int64
	overdraft   int64
}

const given = 1 << 63 // in a key's fingerprint, which has 56 bits: the ticket has its own instant

// keyOf returns the key of a charge's state.
func keyOf(t *storage.Ticket, g *storage.Group, m *algorithm.Meter) key {
	return key{g.Subject, timed(t, m.Fingerprint), m.Count, m.Capacity, m.Overdraft}
}

// banOf returns the key of a group's ban. Its state is the end of the ban and the number of bans.
func banOf(t *storage.Ticket, g *storage.Group) key {
	return key{subject: g.Subject, fingerprint: timed(t, algorithm.PenaltyFingerprint)}
}

func timed(t *storage.Ticket, fingerprint uint64) uint64 {
	if t.Now != 0 {
		return fingerprint | given
	}
	return fingerprint
}

// answerTime says when the store answered: by its own clock, and by the cache's clock just before and after.
type answerTime struct {
	at          penstock.Instant
	sent, heard penstock.Instant
}

type entry struct {
	key
	answerTime
	state algorithm.State // of a ban: At is its end, Used the number of bans
}

const ways = 8

// A set holds all entries of the subjects that share it.
type set struct {
	mu         sync.Mutex
	generation uint64 // increases whenever a subject is forgotten
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

// put stores an entry. If the set is full, it replaces the oldest one.
func (s *set) put(e entry) {
	at := s.find(e.key)
	if at == nil {
		at = s.oldest()
	}
	*at = e
}

// oldest returns the entry to replace. A free entry counts as older than any other.
func (s *set) oldest() *entry {
	at := &s.entries[0]
	for i := range s.entries {
		if s.entries[i].sent < at.sent {
			at = &s.entries[i]
		}
	}
	return at
}

// A table holds all entries.
type table struct{ sets []set } // their number is a power of two

func newTable(entries int) table {
	return table{make([]set, 1<<(bits.Len(uint(entries/ways))-1))}
}

// of returns a subject's set. The end of a subject is a keyed hash; its beginning is the tag of its rule.
func (t *table) of(s *storage.Subject) *set {
	return &t.sets[binary.LittleEndian.Uint64(s[8:])&uint64(len(t.sets)-1)]
}

// generations returns the generations of the sets of a ticket's subjects.
func (t *table) generations(ticket *storage.Ticket) (all [maxGroups]uint64) {
	for i := range ticket.Groups {
		s := t.of(&ticket.Groups[i].Subject)
		s.mu.Lock()
		all[i] = s.generation
		s.mu.Unlock()
	}
	return all
}

// forget drops all entries of a subject, and rejects answers that were asked for before now.
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
