package ruledb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// Origin is a database as an origin of rules. It opens the database on first use and retries until that succeeds,
// so that a node can start while its database is down.
type Origin struct {
	source  string
	options Options
	name    string

	opening sync.Mutex // held while the database is being opened
	opened  chan struct{}
	db      *DB  // nil until opened is closed
	closed  bool // guarded by opening

	mu      sync.Mutex
	last    *live.Text // the last text read, to avoid fetching it again
	digest  []byte
	offered *live.Text
}

var _ live.Origin = (*Origin)(nil)

// NewOrigin returns the database that source names, as in [Open], without connecting to it.
func NewOrigin(source string, options Options) (*Origin, error) {
	e, err := engineOf(source, options)
	if err != nil {
		return nil, fmt.Errorf("name the rules database: %w: %w", penstock.ErrInvalid, err)
	}
	return &Origin{source: source, options: options, name: e.String(), opened: make(chan struct{})}, nil
}

// String returns the name of the database, without a password.
func (o *Origin) String() string { return o.name }

// DB opens the database unless it is open. It stays open until Close of the origin.
func (o *Origin) DB(ctx context.Context) (*DB, error) {
	o.opening.Lock()
	defer o.opening.Unlock()
	if o.closed {
		return nil, &failure{attempt: "open", database: o.name, cause: errors.New("the origin is closed")}
	}
	if o.db != nil {
		return o.db, nil
	}
	db, err := Open(ctx, o.source, o.options)
	if err != nil {
		return nil, err
	}
	o.db = db
	close(o.opened)
	return db, nil
}

// Close closes the database, if it was opened. Nothing may follow the origin any more.
func (o *Origin) Close() error {
	o.opening.Lock()
	defer o.opening.Unlock()
	wasClosed := o.closed
	o.closed = true
	if wasClosed || o.db == nil {
		return nil
	}
	return o.db.Close()
}

// Read returns the current version.
func (o *Origin) Read(ctx context.Context) (*live.Text, error) {
	db, err := o.DB(ctx)
	if err != nil {
		return nil, err
	}
	number, digest, err := db.currentDigest(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil && o.last.Version == number && string(o.digest) == string(digest) {
		return o.last, nil
	}
	v, err := db.Current(ctx)
	if err != nil {
		return nil, err
	}
	if v.Number == 0 {
		return nil, fmt.Errorf("read the current version from %s: %w", db, live.ErrNoRules)
	}
	text := v.Text()
	switch {
	case text.Same(o.last): // whose digest was not known
		text = o.last
	case text.Same(o.offered):
		text, o.offered = o.offered.PublishedAt(v.At), nil
	}
	o.last, o.digest = text, nil
	if v.Number == number { // otherwise it was saved just now, and the next Read returns its digest
		o.digest = digest
	}
	return o.last, nil
}

// Offer announces a text that is about to be saved; nil withdraws it. Once it is the current version, Read
// returns it, already compiled.
func (o *Origin) Offer(text *live.Text) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.offered = text
}

// Watch reports versions that this process saves or PostgreSQL announces.
func (o *Origin) Watch(ctx context.Context, changed func(), failed func(error)) {
	select {
	case <-ctx.Done():
		return
	case <-o.opened: // until then, Read reports errors
	}
	failures := make(chan error, 1)
	var listener sync.WaitGroup
	defer listener.Wait()
	listener.Go(func() {
		poll.Listen(ctx, o.db.engine.listen, o.db.watchers.wake, func(err error) {
			select {
			case failures <- o.db.failed("listen to", err):
			case <-ctx.Done():
			}
		})
	})
	o.db.watchers.follow(ctx, changed, failures, failed)
}

// Text returns the version as rules to follow.
func (v Version) Text() *live.Text {
	return TextOf(v.Number, v.Document).PublishedAt(v.At)
}

// TextOf returns a document as the text of a version that is about to be saved.
func TextOf(number int64, document []byte) *live.Text {
	return live.NewText(number, time.Time{}, rules.File{Name: fmt.Sprint("version ", number), Data: document})
}

// currentDigest returns the number and the digest of the newest version, without its document. number is 0 if
// there is none.
func (db *DB) currentDigest(ctx context.Context) (number int64, digest []byte, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT number, substr(digest, 1, 64) FROM rule_versions ORDER BY number DESC LIMIT 1`).Scan(&number, &digest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, nil, db.failed("ask for the current version of", err)
	}
	return number, digest, nil
}
