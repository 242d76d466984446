package ruledb

import (
	"context"
	"errors"
)

var (
	// ErrUnavailable is wrapped by every error that is caused by the database and not by the input.
	ErrUnavailable = errors.New("rules database unavailable")

	// ErrNotFound is wrapped if the version does not exist.
	ErrNotFound = errors.New("no such version")

	// ErrNewerSchema is wrapped if a later Penstock has migrated the database, together with ErrUnavailable.
	ErrNewerSchema = errors.New("the schema is newer than this program")

	// ErrOlderSchema is wrapped if the database was made by an earlier Penstock and must not be migrated, together
	// with ErrUnavailable.
	ErrOlderSchema = errors.New("the schema is older than this program")

	// ErrDamaged is wrapped if a version differs from what was saved, together with ErrUnavailable.
	ErrDamaged = errors.New("the version is damaged")
)

// failure says what was attempted on which database, why it failed and what to do.
type failure struct {
	attempt, database, advice string
	cause                     error
}

func (f *failure) Error() string {
	text := f.attempt + " the rules database " + f.database + ": " + f.cause.Error()
	if f.advice != "" {
		text += ": " + f.advice
	}
	return text
}

func (f *failure) Unwrap() []error { return []error{ErrUnavailable, f.cause} }

// failed wraps an error of the database in a failure. nil stays nil.
func (db *DB) failed(attempt string, err error) error {
	if err == nil {
		return nil
	}
	f := &failure{attempt: attempt, database: db.engine.String(), cause: err}
	switch {
	case errors.Is(err, ErrNewerSchema):
		f.advice = "run the version of Penstock that migrated it, or a later one"
	case errors.Is(err, ErrDamaged):
		f.advice = "restore the database from a backup, or roll back to an earlier version"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		f.advice = db.engine.advise(err)
	}
	return f
}
