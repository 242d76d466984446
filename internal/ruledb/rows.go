package ruledb

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRow calls each with every row of a query, read into the columns of a T. It stops at an error of each.
func eachRow[T any](ctx context.Context, from querier, query string, args []any, columns func(*T) []any, each func(T) error) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row T
		if err := rows.Scan(columns(&row)...); err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// changes executes a statement, and reports whether it changed a row.
func changes(ctx context.Context, on execer, query string, args ...any) (bool, error) {
	result, err := on.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// readAll returns all rows of a query. attempt is what an error says was attempted.
func readAll[T any](ctx context.Context, db *DB, attempt, query string, args []any, columns func(*T) []any) (all []T, err error) {
	err = eachRow(ctx, db.sql, query, args, columns, func(row T) error {
		all = append(all, row)
		return nil
	})
	if err != nil {
		return nil, db.failed(attempt, err)
	}
	return all, nil
}

// A column takes a value of a row that is not stored as the program has it.
type column[T any] func(T)

// Scan implements [sql.Scanner].
func (set column[T]) Scan(value any) error {
	v, ok := value.(T)
	if !ok {
		return fmt.Errorf("the database has a %T, must be a %T", value, v)
	}
	set(v)
	return nil
}

// timeColumn takes a time that is stored in microseconds; 0 is the zero time.
func timeColumn(to *time.Time) column[int64] { return func(micros int64) { *to = timeOf(micros) } }

// micros returns a time as it is stored; 0 is the zero time.
func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// inTransaction commits what do writes, unless do returns an error. attempt is what an error says was attempted.
func (db *DB) inTransaction(ctx context.Context, attempt string, do func(*sql.Tx) error) error {
	tx, err := db.engine.begin(ctx, db.sql)
	if err != nil {
		return db.failed(attempt, err)
	}
	defer func() { _ = tx.Rollback() }() // no-op after a commit
	if err := do(tx); err != nil {
		return db.failed(attempt, err)
	}
	return db.failed(attempt, tx.Commit())
}
