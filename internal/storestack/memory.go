package storestack

import "time"

// memoryInterval is how often a node looks whether its memory is full.
const memoryInterval = time.Second

// A memoryWatch says when clients begin to share counters, and when that has ended.
type memoryWatch struct {
	stop, stopped chan struct{}
	sharing       bool
}

// watchMemory looks at the memory store until the stack is closed.
func (s *Stack) watchMemory() {
	s.memory.stop, s.memory.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.memory.stopped)
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		for {
			select {
			case <-s.memory.stop:
				return
			case <-ticker.C:
				s.checkMemory()
			}
		}
	}()
}

// checkMemory logs a change. Nothing else in the log would tell: a full store answers as before, but clients are
// denied because of others.
func (s *Stack) checkMemory() {
	shared := s.Memory.Stats().Shared
	switch {
	case shared > 0 && !s.memory.sharing:
		s.log.Error("memory is full: new clients share counters, and some are denied because of others",
			"shared_counters", shared, "next", "raise store.memory.max_bytes")
	case shared == 0 && s.memory.sharing:
		s.log.Info("memory has room again: no clients share counters")
	}
	s.memory.sharing = shared > 0
}
