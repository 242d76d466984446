package ruledb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// maxPage bounds the rows in one page of the history or the audit log.
const maxPage = 1000

// Version is one state of the rules.
type Version struct {
	Number   int64 // 1 for the first; 0 for the empty state before it
	At       time.Time
	Author   string
	Message  string
	Restores int64  // the version whose document was restored, or 0
	Size     int    // of the document, in bytes
	Document []byte // nil in a history
}

// Current returns the newest version, or the zero Version if none has been saved.
func (db *DB) Current(ctx context.Context) (Version, error) {
	v, err := scanVersion(db.sql.QueryRowContext(ctx, selectVersion+` ORDER BY number DESC LIMIT 1`))
	if errors.Is(err, sql.ErrNoRows) {
		return Version{}, nil
	}
	return v, db.failed("read the current version from", err)
}

// Version returns the version with this number. If there is none, the error wraps ErrNotFound.
func (db *DB) Version(ctx context.Context, number int64) (Version, error) {
	v, err := scanVersion(db.sql.QueryRowContext(ctx, selectVersion+` WHERE number = $1`, number))
	if errors.Is(err, sql.ErrNoRows) {
		return Version{}, fmt.Errorf("read version %d from %s: %w", number, db, ErrNotFound)
	}
	return v, db.failed(fmt.Sprintf("read version %d from", number), err)
}

// What is read of a version. Rows may be written by others, so they are read only as far as they could have been saved.
var selectVersion = fmt.Sprintf(`SELECT number, at, substr(author, 1, %[1]d), substr(message, 1, %[1]d), coalesce(restores, 0), substr(digest, 1, 64),
	octet_length(document), CASE WHEN octet_length(document) <= %[2]d THEN document END FROM rule_versions`, maxLine, maxDocument)

const (
	maxDocument = rules.MaxDocument
	maxLine     = 4 << 10 // characters of an author or a message
)

func scanVersion(row *sql.Row) (v Version, err error) {
	var digest []byte
	if err := row.Scan(&v.Number, timeColumn(&v.At), &v.Author, &v.Message, &v.Restores, &digest, &v.Size, &v.Document); err != nil {
		return Version{}, err
	}
	if v.Size > maxDocument {
		return Version{}, fmt.Errorf("version %d: the document has %d bytes, at most %d can be saved: %w", v.Number, v.Size, maxDocument, ErrDamaged)
	}
	if v.Document == nil {
		v.Document = []byte{} // the SQLite driver returns nil for an empty one
	}
	v.Size = len(v.Document)
	if sum := sha256.Sum256(v.Document); !bytes.Equal(sum[:], digest) {
		return Version{}, fmt.Errorf("version %d: the SHA-256 of the document does not match: %w", v.Number, ErrDamaged)
	}
	return v, nil
}

// History returns at most limit versions before the given number, newest first and without their documents.
// Before 0 means from the newest on. Pass the number of the last one to get the next page.
func (db *DB) History(ctx context.Context, before int64, limit int) ([]Version, error) {
	before, err := pageBounds("read the history", before, limit)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, db, "read the history of",
		fmt.Sprintf(`SELECT number, at, substr(author, 1, %[1]d), substr(message, 1, %[1]d), coalesce(restores, 0), octet_length(document)
		FROM rule_versions WHERE number < $1 ORDER BY number DESC LIMIT $2`, maxLine), []any{before, limit},
		func(v *Version) []any {
			return []any{&v.Number, timeColumn(&v.At), &v.Author, &v.Message, &v.Restores, &v.Size}
		})
}

func pageBounds(attempt string, before int64, limit int) (int64, error) {
	if limit < 1 || limit > maxPage {
		return 0, fmt.Errorf("%s: %w: limit must be from 1 to %d, got %d", attempt, penstock.ErrInvalid, maxPage, limit)
	}
	if before < 0 {
		return 0, fmt.Errorf("%s: %w: before must be a number, or 0 for the newest, got %d", attempt, penstock.ErrInvalid, before)
	}
	if before == 0 {
		before = math.MaxInt64
	}
	return before, nil
}
