package redisstore

import "github.com/penstock-io/penstock"

// ScriptText returns the script as it is sent.
func ScriptText() string { return takeScript.text }

// UseScript makes the store run another script: a deliberately broken one.
func (s *Store) UseScript(text string) { s.script = newScript(text) }

// SubjectKey returns the key of a subject's fixed-size states.
func SubjectKey(prefix string, s penstock.Subject) string {
	return string(appendSubjectKey(nil, prefix, s))
}

// ListKey returns the key of a subject's log or set of leases.
func ListKey(prefix string, s penstock.Subject, m *penstock.Meter) string {
	return string(appendListKey(nil, prefix, s, m))
}

// SlotOf returns the slot in which everything of the subject lives.
func SlotOf(s penstock.Subject) int { return slotOf(s) }

// Waiting returns how many calls are queued and have not been sent.
func (s *Store) Waiting() int {
	n := 0
	for i := range s.lanes {
		l := &s.lanes[i]
		l.mu.Lock()
		n += len(l.waiting)
		l.mu.Unlock()
	}
	return n
}

// SlowPace makes the store believe in a short way to Redis, so that it has LeastRuns under way at
// most, until lone calls tell it otherwise.
func (s *Store) SlowPace() { s.pace.roundTrip.Store(0) }

// LeastRuns is how many runs a lane may always have under way.
const LeastRuns = leastRun

// Bounds of a run.
const (
	MaxRunTickets = maxRunTickets
	MaxRunCharges = maxRunCharges
)
