package entitlement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/internal/ruledb"
)

// An Origin is where entitlements are kept: a *[ruledb.Origin].
type Origin interface {
	DB(ctx context.Context) (*ruledb.DB, error)
	NotifyEntitlements(ctx context.Context, changed func())
}

// Options configure how a table follows its origin. The zero value is the default.
type Options struct {
	Interval time.Duration // between two reads; default 500 ms
	Timeout  time.Duration // of one read; default 30 s

	// Changed receives the status when reading begins to fail or succeeds again. It is called by one goroutine at a
	// time.
	Changed func(Status)
}

// A Status says what a table holds.
type Status struct {
	Rows   int
	Change int64     // the last that the table has
	Read   time.Time // when the origin last answered; zero: never
	Err    error     // why it does not answer now; nil if it does
}

// Entitlements are a table that follows the rules database. While the database does not answer, the table keeps the
// rows that it has; before it has answered once, the table is empty and limits have their defaults.
type Entitlements struct {
	*Table
	origin  Origin
	options Options
	wake    poll.Waker
	close   context.CancelFunc
	ended   sync.WaitGroup

	mu     sync.Mutex
	status Status
}

// pageSize is how many changes are read at once.
const pageSize = 20_000

// Follow reads the entitlements of an origin and follows their changes until Close. An origin that does not answer is
// not an error. The context bounds the first read.
func Follow(ctx context.Context, origin Origin, o Options) (*Entitlements, error) {
	o.Interval, o.Timeout = cmp.Or(o.Interval, 500*time.Millisecond), cmp.Or(o.Timeout, 30*time.Second)
	if o.Interval < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("follow entitlements: %w: interval %v and timeout %v must be positive", penstock.ErrInvalid, o.Interval, o.Timeout)
	}
	e := &Entitlements{Table: NewTable(), origin: origin, options: o, wake: poll.NewWaker()}
	e.read(ctx)
	ctx, e.close = context.WithCancel(context.WithoutCancel(ctx))
	e.ended.Go(func() { poll.Every(ctx, o.Interval, e.wake, func() { e.read(ctx) }) })
	e.ended.Go(func() { origin.NotifyEntitlements(ctx, e.wake.Wake) })
	return e, nil
}

// Close stops following. The table stays as it is.
func (e *Entitlements) Close() {
	e.close()
	e.ended.Wait()
}

// Status returns what the table holds.
func (e *Entitlements) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// read brings the table up to date.
func (e *Entitlements) read(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	before := e.Status()
	change, err := e.catchUp(limited, before.Change)
	if err != nil && ctx.Err() != nil {
		return // closing
	}
	now := Status{Rows: before.Rows, Change: change, Read: before.Read, Err: err}
	if change != before.Change {
		now.Rows = e.Len()
	}
	if err == nil {
		now.Read = time.Now()
	}
	e.mu.Lock()
	e.status = now
	e.mu.Unlock()
	if e.options.Changed != nil && ((err != nil) != (before.Err != nil) || err == nil && before.Read.IsZero()) {
		e.options.Changed(now)
	}
}

var errRestless = errors.New("the changes that a reload starts with are removed again and again")

// catchUp applies all changes after one, and returns the last that was applied. If it cannot know all changes since
// then, it loads a table from the start and replaces the present one.
func (e *Entitlements) catchUp(ctx context.Context, after int64) (int64, error) {
	db, err := e.origin.DB(ctx)
	if err != nil {
		return after, err
	}
	to, at, fresh := e.parts.Load(), after, false
	for {
		c, err := db.EntitlementsSince(ctx, at, pageSize)
		switch {
		case err != nil && fresh:
			return after, err // the present table stays
		case err != nil:
			return at, err
		case c.Reset && fresh:
			return after, errRestless
		case c.Reset:
			to, at, fresh = new(parts), 0, true
			continue
		}
		e.apply(to, c.Rows)
		if at = c.Last; !c.More {
			e.parts.Store(to)
			return at, nil
		}
	}
}
