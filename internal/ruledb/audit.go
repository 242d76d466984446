package ruledb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// The actions that this package records itself. Record accepts others.
const (
	ActionSave     = "save"
	ActionRollback = "rollback"
)

// Event is one entry of the audit log: who did what, and when. Entries are added and never changed.
type Event struct {
	Number  int64 // increases, with gaps
	At      time.Time
	Actor   string
	Action  string // lower-case letters and dashes
	Version int64  // the version it created or concerns, or 0
	Detail  string
}

// Record adds an event that made no version, such as lifting a ban. It sets the number and the time itself.
func (db *DB) Record(ctx context.Context, e Event) error {
	err := errors.Join(validateName("actor", e.Actor), validateAction(e.Action), validateText("detail", e.Detail))
	if e.Version < 0 {
		err = errors.Join(err, fmt.Errorf("version must be a number, or 0 for none, got %d", e.Version))
	}
	if e.Action == ActionSave || e.Action == ActionRollback {
		err = errors.Join(err, fmt.Errorf("%s is recorded by the operation itself", e.Action))
	}
	if err != nil {
		return fmt.Errorf("record an event: %w: %w", penstock.ErrInvalid, err)
	}
	last, _, err := db.currentDigest(ctx)
	if err != nil {
		return err
	}
	if e.Version > last { // versions have no gaps and are never deleted
		return fmt.Errorf("record an event about version %d in %s: %w", e.Version, db, ErrNotFound)
	}
	e.At = time.Now()
	return db.failed("record an event in", record(ctx, db.sql, e))
}

// Audit returns at most limit events before the given number, newest first. See History.
func (db *DB) Audit(ctx context.Context, before int64, limit int) ([]Event, error) {
	before, err := pageBounds("read the audit", before, limit)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, db, "read the audit of",
		`SELECT number, at, actor, action, coalesce(version, 0), detail
		FROM rule_audit WHERE number < $1 ORDER BY number DESC LIMIT $2`, []any{before, limit},
		func(e *Event) []any {
			return []any{&e.Number, timeColumn(&e.At), &e.Actor, &e.Action, &e.Version, &e.Detail}
		})
}

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func record(ctx context.Context, x execer, e Event) error {
	_, err := x.ExecContext(ctx, `INSERT INTO rule_audit (at, actor, action, version, detail) VALUES ($1, $2, $3, $4, $5)`,
		e.At.UnixMicro(), e.Actor, e.Action, orNull(e.Version), e.Detail)
	return err
}
