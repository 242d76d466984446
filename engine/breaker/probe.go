package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/storage"
)

// openZone ends a phase in which operations went to the store, unless another goroutine has done so already.
func (b *Breaker) openZone(z int, p *phase, cause error, wait time.Duration) {
	refusal := fmt.Errorf("not sent to the store, which has failed: %w: %w", storage.ErrNotTaken, cause)
	if b.zones[z].phase.CompareAndSwap(p, &phase{refusal: refusal, cause: cause, since: time.Now()}) {
		b.opened.Add(1)
		b.ended.Go(func() { b.recover(z, cause, wait) })
	}
}

// recover probes until the zone works again.
func (b *Breaker) recover(z int, cause error, wait time.Duration) {
	b.mu.Lock()
	b.count(1, Open, cause)
	b.mu.Unlock()
	for {
		select {
		case <-b.closing.Done():
			return
		case <-time.After(wait):
		}
		if b.probe(z) == nil {
			break
		}
		wait = b.options.Interval
	}
	b.closeZone(z)
}

// closeZone lets operations through again, and only then reports it, so that observers can rely on it. The next
// opening is reported after that.
func (b *Breaker) closeZone(z int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.zones[z].phase.Store(&phase{since: time.Now()})
	b.count(-1, Closed, nil)
}

// watchFailures is how many consecutive failed probes open a zone, unless one of them says that the store is
// down.
const watchFailures = 3

// watch probes a zone while it is closed.
func (b *Breaker) watch(z int) {
	ticker := time.NewTicker(b.options.Watch)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-b.closing.Done():
			return
		case <-ticker.C:
		}
		p := b.zones[z].phase.Load()
		if p.refusal != nil {
			failures = 0
			continue
		}
		err := b.probe(z)
		switch {
		case err == nil:
			failures = 0
			continue
		case b.closing.Err() != nil:
			return
		}
		if failures++; failures >= watchFailures || b.options.Judge(err) == Down {
			b.openZone(z, p, err, b.options.Interval)
		}
	}
}

// count counts a zone that has opened or closed, and reports the first opening and the last closing. The caller holds
// the mutex.
func (b *Breaker) count(more int, now State, cause error) {
	b.open += more
	if now == Open && b.open == 1 || now == Closed && b.open == 0 {
		b.options.OnChange(now, cause)
	}
}

func (b *Breaker) probe(z int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the probe panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(b.closing, b.options.Patience)
	defer cancel()
	return b.options.Probe(ctx, z)
}
