package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// The state of a penalty is the payload of a slot: Length << penaltyBits | Packed. A ban is dated by its
// start, Length before its end, because its end may be later than the last instant.
const penaltyBits = 19

// penalty returns the state of a penalty. The slot may be nil.
func (s *slot) penalty() algorithm.PenaltyState {
	if s == nil {
		return algorithm.PenaltyState{}
	}
	st := algorithm.PenaltyStateOf(s.at(), int64(s.payload>>penaltyBits), int64(s.payload&(1<<penaltyBits-1)))
	if s.head&sortMask == banned {
		st.At += algorithm.Instant(st.Length)
	}
	return st
}

func (s *slot) setPenalty(st algorithm.PenaltyState, forgive int64, isBan, isGiven bool) {
	at, flags := st.At, state|givenFlag(isGiven)
	if isBan {
		at, flags = at-algorithm.Instant(st.Length), banned|givenFlag(isGiven)
	}
	s.head = head(at, st.At+algorithm.Instant(forgive), flags)
	s.payload = uint64(st.Length)<<penaltyBits | uint64(st.Packed())
}

// setPenalty writes a penalty's state, into a new slot if there is none. Room must have been made.
func (p *slotRef) setPenalty(st algorithm.PenaltyState, forgive int64, isBan, isGiven bool) {
	s := p.slot()
	if s == nil {
		s = p.sh.add(slot{key: p.key, head: state})
	}
	s.setPenalty(st, forgive, isBan, isGiven)
}
