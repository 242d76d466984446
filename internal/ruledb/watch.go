package ruledb

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Watch says what DB.Watch does.
type Watch struct {
	Interval time.Duration // default: 5 s

	// Changed gets the current version's number: first when Watch starts, 0 if there is none yet, then whenever it
	// differs from the last. While it runs nothing is asked: a slow one misses numbers, never the newest.
	Changed func(number int64)

	// Failed gets the reason whenever the database does not answer or does not announce. The watch goes on. It may be
	// nil, and may be called while Changed runs.
	Failed func(error)
}

// Watch tells of new versions until ctx ends, and returns then.
//
// It asks the database for the current version at once and then every interval: that is the truth. In between it asks
// when this DB saved a version, or when PostgreSQL announces one; that is only faster. Announcements do not arrive
// through a pool that changes the connection with every transaction.
func (db *DB) Watch(ctx context.Context, w Watch) {
	if w.Interval <= 0 {
		w.Interval = 5 * time.Second
	}
	if w.Failed == nil {
		w.Failed = func(error) {}
	}
	wake := db.watchers.add()
	defer db.watchers.remove(wake)

	var listener sync.WaitGroup
	defer listener.Wait()
	listener.Go(func() { db.keepListening(ctx, wake, w.Failed) })

	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	for last := int64(-1); ; {
		number, err := db.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Failed(err)
		case number != last: // smaller too: the database may have been restored from a backup
			last = number
			w.Changed(number)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-ticker.C:
		}
	}
}

// look is currentNumber with an end: nobody else would end a wait for a server that has gone silent.
func (db *DB) look(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, db.patience)
	defer cancel()
	return db.currentNumber(ctx)
}

// keepListening listens, and when the connection is lost listens again, less and less eagerly.
func (db *DB) keepListening(ctx context.Context, wake waker, failed func(error)) {
	const least, most = 100 * time.Millisecond, 30 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		err := db.engine.listen(ctx, func() {
			wait = least
			wake.wake()
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		failed(db.failed("listen to", err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)): // nodes that lost one server do not return all at once
		}
	}
}

// A waker holds at most one wish to look: a look finds all there is.
type waker chan struct{}

func (w waker) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// watchers are the running Watches of a DB.
type watchers struct {
	mu  sync.Mutex
	all map[waker]bool
}

func (w *watchers) add() waker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[waker]bool{}
	}
	added := make(waker, 1)
	w.all[added] = true
	return added
}

func (w *watchers) remove(gone waker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, gone)
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for waker := range w.all {
		waker.wake()
	}
}
