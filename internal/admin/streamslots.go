package admin

import (
	"fmt"
	"net/http"
	"sync"
)

const (
	maxStreams      = 16 // of each kind, at a time
	operatorStreams = 4  // of maxStreams, reserved for operators
)

// streamSlots counts the open streams of one kind. Viewers cannot take all of them.
type streamSlots struct {
	mu  sync.Mutex
	all int
}

// begin takes a place. The caller must call end.
func (p *streamSlots) begin(role Role) (end func(), err error) {
	most := maxStreams
	if role < Operator {
		most -= operatorStreams
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= most {
		return nil, refuse(http.StatusServiceUnavailable, Unavailable, fmt.Sprintf("too many streams: %d are open, at most %d, of which %d are kept for operators", p.all, maxStreams, operatorStreams))
	}
	p.all++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
	}, nil
}
