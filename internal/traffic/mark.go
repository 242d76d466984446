package traffic

import (
	"slices"
	"time"
)

// A Mark is an event that explains numbers, such as a change of rules.
type Mark struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

// Kinds of marks.
const (
	MarkStart         = "start" // the node started
	MarkStop          = "stop"
	MarkRules         = "rules"          // other rules came into force
	MarkCircuitOpen   = "circuit_open"   // the store failed
	MarkCircuitClosed = "circuit_closed" // it serves again
)

// Bounds of marks.
const (
	maxMarks    = 256 // of the last hour; the oldest are dropped
	maxMarkText = 200
)

// Mark records an event that explains numbers. The text must not name clients: marks are stored.
func (t *Traffic) Mark(kind, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	h.marks = append(h.marks, Mark{time.Now().UTC(), kind, text[:min(len(text), maxMarkText)]})
	if len(h.marks) > maxMarks {
		h.marks = slices.Clone(h.marks[len(h.marks)-maxMarks:])
	}
}

// Marks returns the events of a period within the last hour or so.
func (t *Traffic) Marks(from, to time.Time) (found []Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.history.marks {
		if !m.At.Before(from) && m.At.Before(to) {
			found = append(found, m)
		}
	}
	return found
}
