package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// open ends a phase in which calls went to the store, unless somebody has already.
func (b *Breaker) open(p *phase, cause error, wait time.Duration) {
	refusal := fmt.Errorf("not asked, as the store has failed: %w: %w", penstock.ErrUnavailable, cause)
	if b.phase.CompareAndSwap(p, &phase{refusal: refusal, cause: cause, since: time.Now()}) {
		b.opened.Add(1)
		b.ended.Go(func() { b.recover(cause, wait) })
	}
}

// recover probes until the store serves again.
func (b *Breaker) recover(cause error, wait time.Duration) {
	b.options.OnChange(Open, cause)
	for {
		select {
		case <-b.closing.Done():
			return
		case <-time.After(wait):
		}
		if b.probe() == nil {
			break
		}
		wait = b.options.Interval
	}
	b.options.OnChange(Closed, nil) // before the next opening can be told
	b.phase.Store(&phase{since: time.Now()})
}

func (b *Breaker) probe() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the probe panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(b.closing, b.options.Patience)
	defer cancel()
	return b.options.Probe(ctx)
}
