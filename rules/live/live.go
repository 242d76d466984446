package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
)

// Options configure how rules are followed.
type Options struct {
	Compile rules.Options // Version is set from the text

	// Read compiles a text in a format other than that of rules. Nil means [Text.Compile].
	Read func(files []rules.File, o rules.Options) (*rules.Snapshot, rules.Problems, error)

	Interval time.Duration // between two reads of the origin; default 5 s
	Timeout  time.Duration // of one read; default 10 s

	// LastGood is the file that keeps the text served last, for a start while the origin is down. It belongs to one
	// process. "" means no copy.
	LastGood string

	// OriginName is stored with the copy. A copy with another name is ignored: its rules belong to another file or
	// database. "" means the String of the origin.
	OriginName string

	// Changed receives the status whenever it changes: other rules, a rejected text, a new error or one that is gone.
	// It is called by one goroutine at a time and delays the next read.
	Changed func(Status)

	// Considered is called for every text that is read, with nil if it is served now, or else with the reason why it
	// is rejected. It is for origins that report back. It is called before Changed. It may be nil.
	Considered func(text *Text, err error)
}

// Rules are the rules that a node serves now. They follow an origin.
//
// Rules reads the origin at every interval, which is enough to find every change. It also reads when the origin
// reports a change, which is only faster. A text that does not compile never replaces one that did, and neither
// does an origin that fails.
type Rules struct {
	origin  Origin
	options Options
	copy    lastGood

	current atomic.Pointer[rules.Snapshot]

	// Used by the goroutine that reads the origin, and by Follow before that starts.
	served  *Text // nil: empty rules, because the origin has none yet
	refused *Text
	toCopy  bool // served is not yet on disk
	told    statusNews

	mu     sync.Mutex
	status Status

	serving  sync.Mutex // held while rules are checked against requires and served
	requires []func(*rules.Snapshot) error

	wake  poll.Waker
	close context.CancelFunc
	ended sync.WaitGroup
}

// Follow starts to serve the rules of an origin. If the origin cannot be read or its text does not compile, it
// serves the last good copy until that changes. Without a copy of this origin, Follow fails. It also fails if the
// origin is [Files] and its path does not exist, because the path is probably wrong. An origin that works and has
// no rules yet is served as empty rules.
//
// The context bounds the start. Close ends everything after it.
func Follow(ctx context.Context, origin Origin, o Options) (*Rules, error) {
	o.Interval = cmp.Or(o.Interval, 5*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Interval < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("follow the rules in %v: %w: interval %v and timeout %v must be positive", origin, penstock.ErrInvalid, o.Interval, o.Timeout)
	}
	l := &Rules{origin: origin, options: o, copy: lastGood{o.LastGood, cmp.Or(o.OriginName, origin.String())}, wake: poll.NewWaker()}
	l.reload(ctx)
	if l.current.Load() == nil {
		if err := l.startWithout(); err != nil {
			return nil, fmt.Errorf("follow the rules in %v: %w", origin, err)
		}
	}
	l.notify()

	ctx, l.close = context.WithCancel(context.WithoutCancel(ctx))
	l.ended.Go(func() {
		poll.Every(ctx, o.Interval, l.wake, func() {
			if l.reload(ctx); ctx.Err() == nil {
				l.notify()
			}
		})
	})
	l.ended.Go(func() { origin.Watch(ctx, func() { l.pushed(nil) }, l.pushed) })
	return l, nil
}

// Load returns the current rules. It never returns nil and costs one atomic read.
func (l *Rules) Load() *rules.Snapshot { return l.current.Load() }

// Require rejects all later rules for which check fails, as if they did not compile. If check fails for the rules
// that are served, Require returns its error and has no effect.
func (l *Rules) Require(check func(*rules.Snapshot) error) error {
	l.serving.Lock()
	defer l.serving.Unlock()
	if err := check(l.Load()); err != nil {
		return err
	}
	l.requires = append(l.requires, check)
	return nil
}

// Status returns what is served and what prevents something newer.
func (l *Rules) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Close stops following the origin and returns when that has ended. The rules stay as they are.
func (l *Rules) Close() {
	l.close()
	l.ended.Wait()
}

// startWithout serves the last good copy, or empty rules, while the origin's rules are unavailable.
func (l *Rules) startWithout() error {
	s := l.Status()
	reason := s.Err
	if s.Refused != nil {
		reason = s.Refused.Err
	}
	if _, missing := errors.AsType[*missingPathError](reason); missing {
		return reason
	}
	err := fs.ErrNotExist
	if l.options.LastGood != "" {
		var text *Text
		if text, err = l.copy.read(); err == nil {
			return l.startFromCopy(text, reason)
		}
	}
	_, isOther := errors.AsType[*otherOriginError](err)
	switch {
	case (isOther || errors.Is(err, fs.ErrNotExist)) && errors.Is(reason, ErrNoRules):
		return l.serveNothing()
	case l.options.LastGood == "":
		return reason
	}
	return errors.Join(reason, err)
}

func (l *Rules) startFromCopy(text *Text, reason error) error {
	snapshot, warnings, err := l.compile(text)
	if err != nil {
		return errors.Join(reason, fmt.Errorf("compile the last good rules from %s: %w", l.options.LastGood, err))
	}
	refused, rejection := l.refused, l.Status().Refused // they still hold, and are why the copy is served
	if err := l.serve(text, snapshot, warnings); err != nil {
		return err
	}
	l.refused, l.toCopy = refused, false
	l.update(func(s *Status) { s.FromCopy, s.Refused, s.Propagation = true, rejection, 0 })
	return nil
}

func (l *Rules) serveNothing() error {
	none := NewText(0, time.Time{}, rules.File{Data: []byte("rules: []")})
	snapshot, _, err := l.compile(none)
	if err != nil {
		return err
	}
	l.current.Store(snapshot)
	l.update(func(s *Status) { s.Since, s.Empty = time.Now(), true })
	return nil
}

// reload reads the origin and serves its rules.
func (l *Rules) reload(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	text, err := l.origin.Read(limited)
	l.update(func(s *Status) {
		if s.Err = err; err == nil {
			s.Looked = time.Now()
		}
	})
	if err == nil {
		err := l.consider(text)
		if l.options.Considered != nil {
			l.options.Considered(text, err)
		}
	}
	if l.toCopy {
		err := l.copy.write(l.served)
		l.toCopy = err != nil
		l.update(func(s *Status) { s.CopyErr = err })
	}
}

// consider serves a text if it is new and compiles. It returns why the text is rejected.
func (l *Rules) consider(text *Text) error {
	switch {
	case text.Same(l.served):
		l.refused = nil
		l.update(func(s *Status) { s.FromCopy, s.Refused = false, nil })
		return nil
	case text.Same(l.refused):
		return l.Status().Refused.Err // it would be rejected again
	}
	snapshot, warnings, err := l.compile(text)
	if err == nil {
		err = l.serve(text, snapshot, warnings)
	}
	if err != nil {
		l.refused = text
		l.update(func(s *Status) {
			s.Refused = &Rejection{Version: text.Version, Checksum: text.checksum, At: time.Now(), Err: err}
			s.Refusals++
		})
	}
	return err
}

func (l *Rules) compile(text *Text) (*rules.Snapshot, rules.Problems, error) {
	o := l.options.Compile
	if l.options.Read == nil {
		return text.Compile(context.Background(), o)
	}
	o.Version = text.Version
	return l.options.Read(text.Files, o)
}

// serve serves the rules, unless they fail a requirement.
func (l *Rules) serve(text *Text, snapshot *rules.Snapshot, warnings rules.Problems) error {
	l.serving.Lock()
	defer l.serving.Unlock()
	for _, check := range l.requires {
		if err := check(snapshot); err != nil {
			return err
		}
	}
	first := l.current.Swap(snapshot) == nil
	l.served, l.refused, l.toCopy = text, nil, l.options.LastGood != ""
	l.update(func(s *Status) {
		s.Version, s.Checksum, s.Published = text.Version, text.checksum, text.Published
		s.Since, s.Propagation = time.Now(), 0
		if !first && !text.Published.IsZero() {
			s.Propagation = max(0, s.Since.Sub(text.Published)) // clocks differ
		}
		s.FromCopy, s.Refused, s.Warnings = false, nil, warnings
		s.Empty = len(snapshot.Rules) == 0 && snapshot.DeniesBy(nil)
	})
	return nil
}

// pushed is called by the origin when there may be a change or, with an error, when it cannot report changes.
func (l *Rules) pushed(err error) {
	l.update(func(s *Status) { s.PushErr = err })
	l.wake.Wake()
}

// Reread reads the origin now rather than after the interval, and returns at once. It is for operators who
// request it: changes are found without it.
func (l *Rules) Reread() { l.wake.Wake() }

func (l *Rules) update(change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.status)
}
