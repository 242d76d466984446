package ruledb

import (
	"context"
	"errors"
)

var (
	// ErrUnavailable is wrapped by every error with which the database, and not the input, is at fault.
	ErrUnavailable = errors.New("rules database unavailable")

	// ErrNotFound is wrapped when there is no such version.
	ErrNotFound = errors.New("no such version")

	// ErrNewerSchema is wrapped when a later Penstock has migrated the database. It comes with ErrUnavailable.
	ErrNewerSchema = errors.New("the schema is newer than this program")

	// ErrOlderSchema is wrapped when the database is to be opened as it is and was made by an earlier Penstock. It
	// comes with ErrUnavailable.
	ErrOlderSchema = errors.New("the schema is older than this program")

	// ErrDamaged is wrapped when a version is not what was saved. It comes with ErrUnavailable.
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

// failed explains an error of the database.
func (db *DB) failed(attempt string, err error) error {
	f := &failure{attempt: attempt, database: db.engine.String(), cause: err}
	switch {
	case errors.Is(err, ErrNewerSchema):
		f.advice = "run the Penstock that migrated it, or a later one"
	case errors.Is(err, ErrDamaged):
		f.advice = "restore the database from a backup, or roll back to an earlier version"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	default:
		f.advice = db.engine.advise(err)
	}
	return f
}
