package ruledb

import (
	"sync"

	"github.com/penstock-io/penstock/internal/poll"
)

// watchers are notified when this DB saves a version.
type watchers struct {
	mu  sync.Mutex
	all map[poll.Waker]bool
}

func (w *watchers) add() poll.Waker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[poll.Waker]bool{}
	}
	added := poll.NewWaker()
	w.all[added] = true
	return added
}

func (w *watchers) remove(gone poll.Waker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, gone)
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for waker := range w.all {
		waker.Wake()
	}
}
