package ruledb

import (
	"context"
	"embed"
	"fmt"

	"github.com/pressly/goose/v3"
)

// A migration, once released, never changes: databases exist that were made by it. What is to be different is a
// further one.
//
//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// schemaTable is where goose notes which migrations a database has had.
const schemaTable = "rule_schema"

func (db *DB) migrate(ctx context.Context, asItIs bool) error {
	provider, err := db.migrationProvider()
	if err != nil {
		return err
	}
	for failure, failedAt := error(nil), int64(-1); ; {
		// Looking first lets a user who may not create tables open a database that has them all.
		current, known, err := provider.GetVersions(ctx)
		switch {
		case err != nil:
			return err
		case current > known:
			return fmt.Errorf("%w: it has schema %d, this program knows schemas up to %d", ErrNewerSchema, current, known)
		case current == known:
			return nil
		case asItIs:
			return fmt.Errorf("%w: it has schema %d, this program brings it to %d when it serves", ErrOlderSchema, current, known)
		case current == failedAt:
			return fmt.Errorf("migrate from schema %d to %d: %w", current, known, failure)
		}
		// Of two processes that migrate one SQLite file together, one fails at each step the other took. While there
		// are steps taken it is worth trying again.
		_, failure = provider.Up(ctx)
		failedAt = current
	}
}

func (db *DB) migrationProvider() (*goose.Provider, error) {
	files, dialect, options, err := db.engine.migrations()
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, db.sql, files, append(options,
		goose.WithTableName(schemaTable),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)...)
}
