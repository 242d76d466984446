package ruledb

import (
	"context"
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

// follow calls changed at once and whenever the watchers are woken, and failed with every failure, until ctx ends.
func (w *watchers) follow(ctx context.Context, changed func(), failures <-chan error, failed func(error)) {
	wake := w.add()
	defer w.remove(wake)
	for changed(); ; {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			changed()
		case err := <-failures:
			failed(err)
		}
	}
}
