package ruledb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/penstock-io/penstock"
)

// Options configure a database. The zero value is the default.
type Options struct {
	// Patience is how long to wait for a connection, and for another transaction to end. Default: 5 s.
	Patience time.Duration

	// AsItIs rejects a database whose tables are older than this Penstock's, instead of migrating them. It is for
	// commands that only read.
	AsItIs bool
}

// DB is a rules database. Its methods may be called from several goroutines.
type DB struct {
	sql      *sql.DB
	engine   engine
	watchers watchers
}

// An engine is the part in which SQLite and PostgreSQL differ. Everything else is the same SQL for both.
type engine interface {
	// String returns the name of the database, without a password.
	String() string
	open() (*sql.DB, error)
	// begin starts a transaction that writes. It waits for another one no longer than Patience.
	begin(context.Context, *sql.DB) (*sql.Tx, error)
	migrations() (fs.FS, goose.Dialect, []goose.ProviderOption, error)
	// advise returns what to do about an error, or "".
	advise(error) string
	// listen calls wake when others may have saved a version, until it fails or ctx ends. An engine without
	// notifications returns nil at once.
	listen(ctx context.Context, wake func()) error
}

// Open opens the database that source names, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE. It creates or
// migrates the tables, and fails if they were made by a later Penstock.
func Open(ctx context.Context, source string, options Options) (*DB, error) {
	options.Patience = cmp.Or(options.Patience, 5*time.Second)
	if options.Patience < 0 {
		return nil, fmt.Errorf("open the rules database: %w: patience must be positive, got %v", penstock.ErrInvalid, options.Patience)
	}
	e, err := engineOf(source, options)
	if err != nil {
		return nil, fmt.Errorf("open the rules database: %w: %w", penstock.ErrInvalid, err)
	}
	db := &DB{engine: e}
	if db.sql, err = e.open(); err != nil {
		return nil, db.failed("open", err)
	}
	if err := db.migrate(ctx, options); err != nil {
		return nil, errors.Join(db.failed("open", err), db.sql.Close())
	}
	return db, nil
}

func engineOf(source string, options Options) (engine, error) {
	scheme, rest, _ := strings.Cut(source, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		return newSQLite(rest, options)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return newPostgres(source, options)
	}
	// The error does not quote the source, which may hold a password.
	return nil, errors.New("its name must be sqlite:PATH, such as sqlite:/var/lib/penstock/rules.db, " +
		"or postgres://USER:PASSWORD@HOST:PORT/DATABASE")
}

// String returns the name of the database, without a password.
func (db *DB) String() string { return db.engine.String() }

// Close closes the connections. A Save in progress fails or completes.
func (db *DB) Close() error { return db.failed("close", db.sql.Close()) }
