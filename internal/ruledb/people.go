package ruledb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
)

// Bounds of people: every node holds all of them in memory.
const (
	MaxUsers      = 1000
	MaxTokens     = 5000
	maxUserTokens = 50 // of one user
)

// Roles of users and tokens, from the least to the most.
var Roles = []string{"viewer", "operator", "admin"}

const adminRole = "admin"

// People are the users and the tokens of the admin API.
type People struct {
	Revision int64 // changes with every change of a user or token, but not with their last use
	Users    []User
	Tokens   []Token
}

var (
	// ErrNobody is wrapped if a user or token does not exist.
	ErrNobody = errors.New("does not exist")

	// ErrRefused is wrapped if a change to users or tokens conflicts with existing ones: the name is taken, somebody
	// else has made a change since, or no admin would be left.
	ErrRefused = errors.New("refused")
)

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// nameForm is the form of the names of users and tokens. It has no spaces, so that the audit is unambiguous.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._@+-]{0,62}[a-z0-9])?$`)

// CheckName returns why a user or token cannot have a name.
func CheckName(name string) error {
	if nameForm.MatchString(name) {
		return nil
	}
	return fmt.Errorf("invalid name %.80q: must be 1 to 64 lower-case letters, digits or . _ @ + -, and start and end with a letter or digit", name)
}

func checkRole(role string) error {
	if slices.Contains(Roles, role) {
		return nil
	}
	return fmt.Errorf("unknown role %.40q: must be viewer, operator or admin", role)
}

// PeopleRevision returns People.Revision alone.
func (db *DB) PeopleRevision(ctx context.Context) (revision int64, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT revision FROM admin_people`).Scan(&revision)
	return revision, db.failed("ask for the users of", err)
}

// People returns all users and tokens, by name. The revision is read first, so that a change made meanwhile has a
// higher one.
func (db *DB) People(ctx context.Context) (all People, err error) {
	if all.Revision, err = db.PeopleRevision(ctx); err != nil {
		return People{}, err
	}
	if all.Users, err = db.users(ctx); err != nil {
		return People{}, err
	}
	all.Tokens, err = db.tokens(ctx)
	return all, err
}

// changePeople makes one change of people and records it, in one transaction. Such transactions run one after
// the other, because they first increment the revision.
func (db *DB) changePeople(ctx context.Context, attempt string, invalid error, change func(*sql.Tx) (Event, error)) error {
	if invalid != nil {
		return fmt.Errorf("%s: %w: %w", attempt, penstock.ErrInvalid, invalid)
	}
	var refusal error
	err := db.inTransaction(ctx, attempt+" in", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE admin_people SET revision = revision + 1`); err != nil {
			return err
		}
		event, err := change(tx)
		if errors.Is(err, ErrNobody) || errors.Is(err, ErrRefused) {
			refusal = fmt.Errorf("%s: %w", attempt, err)
		}
		if err != nil {
			return err
		}
		event.At = time.Now()
		return record(ctx, tx, event)
	})
	return cmp.Or(refusal, err)
}

// RecordUse saves when users logged in and when tokens were used, by id.
func (db *DB) RecordUse(ctx context.Context, logins map[int64]time.Time, tokens map[string]time.Time) error {
	return db.inTransaction(ctx, "record who used", func(tx *sql.Tx) error {
		for id, at := range logins {
			if _, err := tx.ExecContext(ctx, `UPDATE admin_users SET login_at = $1 WHERE id = $2 AND login_at < $1`, micros(at), id); err != nil {
				return err
			}
		}
		for id, at := range tokens {
			if _, err := tx.ExecContext(ctx, `UPDATE admin_tokens SET used_at = $1 WHERE id = $2 AND used_at < $1`, micros(at), id); err != nil {
				return err
			}
		}
		return nil
	})
}
