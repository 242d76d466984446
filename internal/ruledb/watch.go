package ruledb

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock-io/penstock/internal/poll"
)

// watchers are notified when this DB saves a version.
type watchers struct {
	mu  sync.Mutex
	all []poll.Waker
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waker := range w.all {
		waker.Wake()
	}
}

// follow calls changed at once and whenever the watchers are woken, and failed with every failure, until ctx ends.
func (w *watchers) follow(ctx context.Context, changed func(), failures <-chan error, failed func(error)) {
	wake := poll.NewWaker()
	w.mu.Lock()
	w.all = append(w.all, wake)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(w.all, func(other poll.Waker) bool { return other == wake })
	}()
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
