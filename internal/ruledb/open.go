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

// Options of a database. The zero value is the default.
type Options struct {
	// Patience is how long to wait for a connection, and for another's edit to end. Default: 5 s.
	Patience time.Duration

	// AsItIs refuses a database whose tables are older than this Penstock's, instead of migrating them: for who only
	// wants to look.
	AsItIs bool
}

// DB is a rules database. Its methods may be called from several goroutines.
type DB struct {
	sql      *sql.DB
	engine   engine
	watchers watchers
}

// An engine is what SQLite and PostgreSQL do differently. All else is one SQL text for both.
type engine interface {
	// String says which database it is, without a password.
	String() string
	open() (*sql.DB, error)
	// begin starts a transaction that writes, and waits for another's no longer than Patience.
	begin(context.Context, *sql.DB) (*sql.Tx, error)
	migrations() (fs.FS, goose.Dialect, []goose.ProviderOption, error)
	// advise says what to do about an error, or nothing.
	advise(error) string
	// listen calls wake when others may have saved a version, until it fails or ctx ends. An engine that cannot
	// be told returns nil at once.
	listen(ctx context.Context, wake func()) error
}

// Open opens the database that source names, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE, creates or migrates
// its tables, and fails if they are of a later Penstock.
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
	if err := db.migrate(ctx, options.AsItIs); err != nil {
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
	// The source itself is not repeated: it may hold a password.
	return nil, errors.New("its name must be sqlite:PATH, such as sqlite:/var/lib/penstock/rules.db, " +
		"or postgres://USER:PASSWORD@HOST:PORT/DATABASE")
}

// String says which database it is, without a password.
func (db *DB) String() string { return db.engine.String() }

// Close ends the connections. A Save under way fails or completes.
func (db *DB) Close() error {
	if err := db.sql.Close(); err != nil {
		return db.failed("close", err)
	}
	return nil
}
