package denycache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// Options of a Cache. The zero value is ready to use.
type Options struct {
	// MaxEntries bounds the memory, at about 100 bytes each; 0 is DefaultMaxEntries. A denied
	// subject takes one for each of its limits.
	MaxEntries int
}

// Bounds of options.
const (
	DefaultMaxEntries = 1 << 16
	MinEntries        = ways
	MostEntries       = 1 << 24
)

// How long an entry is valid, from when the store was asked.
const (
	// longest bounds how long a denial outlives a reset or a lift whose message was lost.
	longest = penstock.Instant(time.Second / time.Microsecond)

	// longestOver is for limits that count all requests. Nothing is given back under them, but the store may
	// have been emptied.
	longestOver = penstock.Instant(time.Minute / time.Microsecond)
)

// A Cache answers denials for a store. It is safe for concurrent use.
type Cache struct {
	inner // the store
	table table
	began time.Time

	hits, misses atomic.Int64
}

type inner = storage.FullStore

// New returns an empty cache in front of a store. It does not decide batches: concurrent requests are faster,
// because the cache may answer each of them.
func New(store storage.FullStore, o Options) (*Cache, error) {
	if o.MaxEntries == 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	var errs []error
	if store == nil {
		errs = append(errs, errors.New("store: none given, for example a redisstore"))
	}
	if o.MaxEntries < MinEntries || o.MaxEntries > MostEntries {
		errs = append(errs, fmt.Errorf("max entries: %d is not from %d to %d", o.MaxEntries, MinEntries, MostEntries))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w deny cache: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	return &Cache{inner: store, table: newTable(o.MaxEntries), began: time.Now()}, nil
}

// Take answers a ticket that is certainly denied, and asks the store for any other.
func (c *Cache) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	out.Cached = false
	if !answerable(t) || ctx.Err() != nil || t.Validate() != nil {
		c.misses.Add(1)
		return c.inner.Take(ctx, t, out)
	}
	if c.answer(t, out) {
		out.Cached = true
		c.hits.Add(1)
		return nil
	}
	c.misses.Add(1)
	return c.takeAndLearn(ctx, t, out)
}

// takeAndLearn asks the store, and learns from its answer.
func (c *Cache) takeAndLearn(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	before := c.table.generations(t)
	out.States = out.States[:0] // left from another ticket: not every store fills them in
	sent := c.clock(t)
	if err := c.inner.Take(ctx, t, out); err != nil {
		return err
	}
	if learnable(t, out) {
		c.learn(t, out, answerTime{at: out.Now, sent: sent, heard: c.clock(t)}, &before)
	}
	return nil
}

// clock returns the time for a ticket: its own instant, or how long this cache has existed, but never 0. Only
// differences between two instants of the same kind are used.
func (c *Cache) clock(t *storage.Ticket) penstock.Instant {
	if t.Now != 0 {
		return t.Now
	}
	return 1 + penstock.Instant(time.Since(c.began).Microseconds())
}

// Stats are the counts and the size of a cache.
type Stats struct {
	Hits    int64 // tickets answered here
	Misses  int64 // tickets that went to the store
	Entries int64 // in use; expired entries are included until they are replaced
}

// Stats counts entries set by set: each count is exact, but their sum is not a snapshot.
func (c *Cache) Stats() Stats {
	return Stats{Hits: c.hits.Load(), Misses: c.misses.Load(), Entries: c.table.count()}
}
