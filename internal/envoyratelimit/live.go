package envoyratelimit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// LiveOptions say how files are followed.
type LiveOptions struct {
	Load     Options
	Interval time.Duration // between two looks at the files; default 5 s

	// Changed is told of every other text that is found, by one goroutine at a time.
	Changed func(Status)
}

// A Status is what a look at the files found.
type Status struct {
	Checksum string         // of what is served
	Warnings rules.Problems // about it
	Err      error          // why something newer is not served; nil: there is nothing newer
}

// Live is the configuration that is served now, kept as its files are. Files that cannot be used
// never replace what could.
type Live struct {
	origin  rules.Origin
	options LiveOptions
	current atomic.Pointer[Config]

	// Of the goroutine that looks; of Follow before that starts.
	served, refused *rules.Text
	refusal         error // why
	status          Status
	told            string // the error told last

	wake  chan struct{} // holds at most one wish to look: a look finds all there is
	close context.CancelFunc
	ended sync.WaitGroup
}

// Follow begins to serve the files of an origin, which must be sound at first. It ends with Close;
// the context bounds the start.
func Follow(ctx context.Context, origin rules.Origin, o LiveOptions) (*Live, error) {
	o.Interval = cmp.Or(o.Interval, 5*time.Second)
	if o.Changed == nil {
		o.Changed = func(Status) {}
	}
	l := &Live{origin: origin, options: o, wake: make(chan struct{}, 1)}
	if err := l.look(ctx); err != nil {
		return nil, fmt.Errorf("follow the limits in %v: %w", origin, err)
	}
	o.Changed(l.status)
	ctx, l.close = context.WithCancel(context.WithoutCancel(ctx))
	l.ended.Go(func() { l.keepLooking(ctx) })
	l.ended.Go(func() {
		origin.Watch(ctx, l.lookSoon, func(error) { l.lookSoon() }) // the next interval finds what it missed
	})
	return l, nil
}

// Load returns what is to be served. It never returns nil.
func (l *Live) Load() *Config { return l.current.Load() }

// Close ends the looking and returns when it has ended. What is served stays.
func (l *Live) Close() {
	l.close()
	l.ended.Wait()
}

func (l *Live) lookSoon() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Live) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(l.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-ticker.C:
		}
		before := l.served
		err := l.look(ctx)
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if l.served != before || text != l.told {
			l.told, l.status.Err = text, err
			l.options.Changed(l.status)
		}
	}
}

// look serves what is there, if it is another and sound.
func (l *Live) look(ctx context.Context) error {
	text, err := l.origin.Read(ctx)
	switch {
	case err != nil:
		return err
	case text.Same(l.served):
		l.refused = nil
		return nil
	case text.Same(l.refused):
		return l.refusal // it would be refused again
	}
	config, warnings, err := Load(text.Files, l.options.Load)
	if err != nil {
		l.refused, l.refusal = text, err
		return err
	}
	l.current.Store(config)
	l.served, l.refused = text, nil
	l.status = Status{Checksum: text.Checksum(), Warnings: warnings}
	return nil
}
