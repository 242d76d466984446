package ruledb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

// Change is the input of Save.
type Change struct {
	Base     int64 // the version it is based on; 0 if there was none
	Author   string
	Message  string // may be empty
	Document []byte
}

// Save adds the change as the next version and returns when it is on disk. If Base is not the current version, it
// saves nothing and returns a [*Conflict].
//
// After any other error, the change may still have been saved, if the response was lost. Sending it again is
// safe: it then conflicts with itself.
func (db *DB) Save(ctx context.Context, change Change) (Version, error) {
	if err := change.validate(); err != nil {
		return Version{}, fmt.Errorf("save the rules: %w: %w", penstock.ErrInvalid, err)
	}
	return db.save(ctx, change, 0)
}

// Rollback saves the document of an older version as the next one. change.Document must be empty.
func (db *DB) Rollback(ctx context.Context, to int64, change Change) (Version, error) {
	err := change.validate()
	if len(change.Document) > 0 {
		err = errors.Join(err, fmt.Errorf("the document is that of version %d, got another of %d bytes", to, len(change.Document)))
	}
	if err != nil {
		return Version{}, fmt.Errorf("roll back to version %d: %w: %w", to, penstock.ErrInvalid, err)
	}
	old, err := db.Version(ctx, to)
	if err != nil {
		return Version{}, fmt.Errorf("roll back to version %d: %w", to, err)
	}
	change.Document = old.Document
	return db.save(ctx, change, to)
}

func (db *DB) save(ctx context.Context, change Change, restores int64) (Version, error) {
	if change.Document == nil {
		change.Document = []byte{} // nil would be NULL
	}
	v := Version{
		Number:   change.Base + 1,
		At:       time.Now().UTC().Truncate(time.Microsecond),
		Author:   change.Author,
		Message:  change.Message,
		Restores: restores,
		Size:     len(change.Document),
		Document: change.Document,
	}
	saved := false
	err := db.inTransaction(ctx, fmt.Sprintf("save version %d in", v.Number), func(tx *sql.Tx) (err error) {
		saved, err = insert(ctx, tx, &v)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	if !saved {
		return Version{}, db.conflict(ctx, change.Base)
	}
	db.watchers.wake()
	return v, nil
}

// insert adds the version and its audit entry, unless its number is not the next.
func insert(ctx context.Context, tx *sql.Tx, v *Version) (bool, error) {
	digest := sha256.Sum256(v.Document)
	// If another writer uses the same number first, PostgreSQL waits for its commit and then does nothing.
	saved, err := changes(ctx, tx, `
		INSERT INTO rule_versions (number, at, author, message, restores, digest, document)
		SELECT $1, $2, $3, $4, $5, $6, $7
		WHERE (SELECT coalesce(max(number), 0) FROM rule_versions) = $8
		ON CONFLICT (number) DO NOTHING`,
		v.Number, v.At.UnixMicro(), v.Author, v.Message, orNull(v.Restores), digest[:], v.Document, v.Number-1)
	if err != nil || !saved {
		return false, err
	}
	event := Event{At: v.At, Actor: v.Author, Action: ActionSave, Version: v.Number, Detail: v.Message}
	if v.Restores != 0 {
		event.Action = ActionRollback
	}
	return true, record(ctx, tx, event)
}

func orNull(number int64) sql.NullInt64 { return sql.NullInt64{Int64: number, Valid: number != 0} }
