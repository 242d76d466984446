package ruledb

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
)

// A released migration never changes, because existing databases were made by it. Changes need a further
// migration.
//
//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// schemaTable is where goose records the applied migrations.
const schemaTable = "rule_schema"

func (db *DB) migrate(ctx context.Context, options Options) error {
	provider, err := db.migrationProvider()
	if err != nil {
		return err
	}
	until := time.Now().Add(options.Patience)
	waited := func(err error) bool { return isBusy(err) && time.Now().Before(until) && wait(ctx, busyPause) }
	for failure, failedAt := error(nil), int64(-1); ; {
		// Checking first lets a user who may not create tables open a database that has them all.
		current, known, err := provider.GetVersions(ctx)
		switch {
		case waited(err):
			continue
		case err != nil:
			return err
		case current > known:
			return fmt.Errorf("%w: it has schema %d; this version supports up to %d", ErrNewerSchema, current, known)
		case current == known:
			return nil
		case options.AsItIs:
			return fmt.Errorf("%w: it has schema %d; serve migrates it to %d", ErrOlderSchema, current, known)
		case current == failedAt:
			return fmt.Errorf("migrate from schema %d to %d: %w", current, known, failure)
		}
		// If two processes migrate one SQLite file at the same time, each fails at the steps that the other took. Try
		// again as long as there is progress.
		if _, failure = provider.Up(ctx); !waited(failure) {
			failedAt = current
		}
	}
}

// busyPause is how long to wait before a locked SQLite file is tried again.
const busyPause = 20 * time.Millisecond

// wait waits, and reports whether the context is still open.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
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
