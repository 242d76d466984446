package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// A penalty's state is the payload of a slot: A << penaltyBits | B. A ban is dated by its beginning,
// A before its end, which may lie later than instants go.
const penaltyBits = 19

// penalty returns the state of a penalty. The slot may be nil.
func (s *slot) penalty() algorithm.State {
	if s == nil {
		return algorithm.State{}
	}
	st := algorithm.State{At: s.at(), A: int64(s.payload >> penaltyBits), B: int64(s.payload & (1<<penaltyBits - 1))}
	if s.head&sortMask == banned {
		st.At += algorithm.Instant(st.A)
	}
	return st
}

func (s *slot) setPenalty(st algorithm.State, forgive int64, isBan, isGiven bool) {
	at, flags := st.At, state|givenFlag(isGiven)
	if isBan {
		at, flags = at-algorithm.Instant(st.A), banned|givenFlag(isGiven)
	}
	s.head = head(at, st.At+algorithm.Instant(forgive), flags)
	s.payload = uint64(st.A)<<penaltyBits | uint64(st.B)
}

// setPenalty writes a penalty's state, into a new slot if there is none. Room must have been made.
func (p *spot) setPenalty(st algorithm.State, forgive int64, isBan, isGiven bool) {
	s := p.slot()
	if s == nil {
		s = p.sh.add(slot{key: p.key, head: state})
	}
	s.setPenalty(st, forgive, isBan, isGiven)
}
