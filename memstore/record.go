package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// The record of a request is the payload of a slot, Departs << replayBits | Replays, dated by the first
// time the request was seen. With a nonce it is a block of one entry: the same value, and the nonce.
const replayBits = 8

func (sh *shard) record(s *slot) algorithm.Record {
	if s == nil {
		return algorithm.Record{}
	}
	r, packed := algorithm.Record{First: s.at()}, s.payload
	if s.isSpilled() {
		entry := sh.list(s)[0]
		packed, r.Nonce = uint64(entry.At), uint64(entry.Value)
	}
	r.Departs, r.Replays = algorithm.Instant(packed>>replayBits), int64(packed&(1<<replayBits-1))
	return r
}

// setRecord writes a new record. A block for its nonce must be held.
func (p *slotRef) setRecord(r algorithm.Record, ttl int64, isGiven bool) {
	s := p.slotApart()
	packed, flags := uint64(r.Departs)<<replayBits|uint64(r.Replays), apart|givenFlag(isGiven)
	if r.Nonce != 0 {
		p.entries(s, 1)[0] = algorithm.Entry{At: algorithm.Instant(packed), Value: int64(r.Nonce)}
		flags |= spilled
	} else {
		p.sh.release(s)
		s.payload = packed
	}
	s.head = head(r.First, r.First+algorithm.Instant(ttl), flags)
}

// countReplay adds one to the replays of a record, which are its lowest bits.
func (sh *shard) countReplay(s *slot) {
	if s.isSpilled() {
		sh.list(s)[0].At++
	} else {
		s.payload++
	}
}
