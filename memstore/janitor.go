package memstore

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/penstock-io/penstock/algorithm"
)

// A janitor removes expired state, with or without traffic. Its goroutine starts with the first key that
// can expire and ends when the store is closed or no longer in use.
type janitor struct {
	started atomic.Bool
	mu      sync.Mutex
	closed  chan struct{}
	ended   chan struct{} // nil if no goroutine was started
}

// A pass over all shards begins every passEvery, or later if passes take long: they use a fiftieth of a
// processor, unless that means waiting longer than passAtLatest.
const (
	passEvery    = time.Second
	passShare    = 50
	passAtLatest = 15 * time.Second
)

func (j *janitor) start(s *Store) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.closed:
	default:
		if !j.started.Swap(true) {
			j.ended = make(chan struct{})
			go clean(weak.Make(s), j.closed, j.ended)
		}
	}
}

func (j *janitor) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.closed:
	default:
		close(j.closed)
	}
	if j.ended != nil {
		<-j.ended
	}
}

// clean holds no pointer to the store while it waits; otherwise the store could never be collected.
func clean(s weak.Pointer[Store], closed <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	timer := time.NewTimer(passEvery)
	defer timer.Stop()
	for {
		select {
		case <-closed:
			return
		case <-timer.C:
		}
		took, ok := cleanOnce(s)
		if !ok {
			return
		}
		timer.Reset(min(max(passEvery, passShare*took), passAtLatest))
	}
}

func cleanOnce(s weak.Pointer[Store]) (took time.Duration, ok bool) {
	store := s.Value()
	if store == nil {
		return 0, false
	}
	began := time.Now()
	for i := range store.shards {
		sh := &store.shards[i]
		sh.lock()
		sh.clean(store.clock.now())
		sh.unlock()
	}
	store.memory.purge()
	return time.Since(began), true
}

// clean removes expired state and returns unused memory.
func (sh *shard) clean(now algorithm.Instant) {
	if sh.chunks > 0 {
		sh.shrink(func(s *slot) bool { return s.deadAt(now) }, 4)
	}
	if sh.lists != nil {
		sh.lists.trim()
	}
}
