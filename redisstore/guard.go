package redisstore

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The bits of a group in a request.
const (
	guardAlone = 1 << iota
	guardPenalized
	guardRemembers
	guardReserves
	guardSpends
	guardHolds
)

// Offsets added to the form of an item that is not a plain charge.
const (
	formPenal     = 4
	formBudget    = 8
	formOverdrawn = 12
)

// guardBits encodes which guards the group has. Without guards, it can only have the bit for an independent
// group.
func guardBits(g *storage.Group) (bits byte) {
	if g.Alone {
		bits = guardAlone
	}
	if !g.Guarded() {
		return bits
	}
	if g.Penalty != nil {
		bits |= guardPenalized
	}
	if g.Remembers() {
		bits |= guardRemembers
	}
	if g.Reserve != 0 {
		bits |= guardReserves
	}
	if g.Spends() {
		bits |= guardSpends
	}
	return bits
}

// itemsOf counts the states that decide the group.
func itemsOf(g *storage.Group) int {
	n := len(g.Charges)
	if g.Penalty != nil {
		n++
	}
	if g.Remembers() {
		n++
	}
	return n
}

// appendGuard writes what the script needs to know about a group besides its items.
func (r *request) appendGuard(b []byte, g *storage.Group, bits byte, nonce uint64, prefix string) []byte {
	if bits&(guardRemembers|guardReserves) == 0 {
		return b
	}
	if bits&guardRemembers != 0 {
		key := r.otherKey(func(text []byte) []byte { return appendRecordKey(text, prefix, g.Subject, g.Call) })
		b = binary.BigEndian.AppendUint16(b, uint16(key))
		b = appendUint56(b, g.Dedup.TTL)
		b = append(b, byte(g.Dedup.MaxReplays))
	}
	if bits&guardReserves != 0 {
		key := r.otherKey(func(text []byte) []byte { return appendReservationsKey(text, prefix, g.Subject) })
		b = binary.BigEndian.AppendUint16(b, uint16(key))
		b = appendUint56(b, g.Reserve.Microseconds())
	}
	if !g.Names() {
		nonce = 0
	}
	return binary.BigEndian.AppendUint64(b, nonce)
}

// appendHold asks the script to record what the group takes, so that it can be undone.
func (r *request) appendHold(b []byte, s storage.Subject, hold holdID, prefix string) []byte {
	key := r.otherKey(func(text []byte) []byte { return appendReservationsKey(text, prefix, s) })
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = appendUint56(b, holdTime.Microseconds())
	return append(b, hold[:]...)
}

// penalty packs a penalty once, in the form of a limit: a number of strikes within a window, followed by
// its bans.
func (r *request) penalty(p *algorithm.Penalty) int {
	if i, ok := r.terms[p]; ok {
		return i
	}
	start := headSize + len(r.limitBuf) + 1
	r.limitBuf = appendPenalty(r.limitBuf, p)
	r.terms[p] = start
	return start
}

func appendPenalty(b []byte, p *algorithm.Penalty) []byte {
	b = appendNumbers(b, &algorithm.Constants{
		Kind:        algorithm.KindPenalty,
		Fingerprint: algorithm.PenaltyFingerprint,
		Count:       p.After,
		Capacity:    int64(len(p.Bans)),
		Window:      p.Within,
		Drain:       p.Forgive,
		Life:        p.Forgive,
	})
	for _, ban := range p.Bans {
		b = appendUint56(b, ban)
	}
	return b
}

// appendRecordKey writes the key of the record of a request.
func appendRecordKey(b []byte, prefix string, s storage.Subject, call storage.CallID) []byte {
	b = append(appendSubjectKey(b, prefix, s), 'd')
	return base64.RawURLEncoding.AppendEncode(b, call[:])
}

// appendReservationsKey writes the key of the hash that holds all reservations of a subject.
func appendReservationsKey(b []byte, prefix string, s storage.Subject) []byte {
	return append(appendSubjectKey(b, prefix, s), 'r')
}

// unpackSight reads the state of a group's guards from the reply, and returns the rest of the reply.
func unpackSight(b string, g *storage.Group) (s storage.GuardResult, rest string) {
	if g.Penalty != nil {
		penalty := unpackItem(b)
		s.Penalty, s.Banned = algorithm.PenaltyStateOf(penalty.at, penalty.x, penalty.y), !penalty.passes
		b = b[itemSize:]
	}
	if g.Remembers() {
		record := unpackItem(b)
		s.Replay = record.passes
		s.First = algorithm.Record{Departs: record.at, Nonce: uint64(record.x)<<32 | uint64(record.y)}
		b = b[itemSize:]
	}
	return s, b
}
