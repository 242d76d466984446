package ruledb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// maxScopes bounds the scopes of a token.
const maxScopes = 32

// A Token gives access to the admin API without a login.
type Token struct {
	ID      string // identifies the token in the API and in the audit; not secret
	Digest  [sha256.Size]byte
	Name    string
	Owner   int64    // the user it acts for; 0: a service
	Role    string   // at most; a user's token has at most the role of the user
	Scopes  []string // what it can be used for; none: everything that the role may do
	By      string   // who created it
	Created time.Time
	Expires time.Time // zero: never
	Used    time.Time // zero: never; to the minute
}

func (db *DB) tokens(ctx context.Context) ([]Token, error) {
	return readAll(ctx, db, "read the tokens of", `SELECT id, digest, name, coalesce(owner, 0), role, scopes, created_by, created_at, expires_at, used_at FROM admin_tokens ORDER BY name, id`, nil,
		func(t *Token) []any {
			digest := column[[]byte](func(b []byte) { copy(t.Digest[:], b) })
			scopes := column[string](func(text string) { t.Scopes = strings.Fields(text) })
			return []any{&t.ID, digest, &t.Name, &t.Owner, &t.Role, scopes, &t.By, timeColumn(&t.Created), timeColumn(&t.Expires), timeColumn(&t.Used)}
		})
}

var (
	idForm    = regexp.MustCompile(`^[A-Za-z0-9]{4,32}$`)
	scopeForm = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)
)

func (t *Token) validate() error {
	errs := []error{CheckName(t.Name), checkRole(t.Role)}
	if !idForm.MatchString(t.ID) {
		errs = append(errs, fmt.Errorf("invalid id %.80q of a token", t.ID))
	}
	if len(t.Scopes) > maxScopes {
		errs = append(errs, fmt.Errorf("a token can have %d scopes, has %d", maxScopes, len(t.Scopes)))
	}
	for _, s := range t.Scopes {
		if !scopeForm.MatchString(s) {
			errs = append(errs, fmt.Errorf("invalid scope %.80q", s))
		}
	}
	return errors.Join(errs...)
}

// AddToken adds a token. Its name must be new among the tokens of the same owner.
func (db *DB) AddToken(ctx context.Context, by string, t Token) error {
	invalid := errors.Join(validateName("actor", by), t.validate())
	return db.changePeople(ctx, fmt.Sprintf("add token %.80q", t.Name), invalid, func(tx *sql.Tx) (Event, error) {
		owner, err := ownerOf(ctx, tx, t.Owner)
		if err != nil {
			return Event{}, err
		}
		if err := roomFor(ctx, tx, &t); err != nil {
			return Event{}, err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO admin_tokens (id, digest, name, owner, role, scopes, created_by, created_at, expires_at, used_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)`,
			t.ID, t.Digest[:], t.Name, orNull(t.Owner), t.Role, strings.Join(t.Scopes, " "), t.By, micros(time.Now()), micros(t.Expires))
		return Event{Actor: by, Action: "token-create", Detail: fmt.Sprintf("%s (%s) for %s, %s", t.Name, t.ID, owner, describe(&t))}, err
	})
}

// describe says what a token can be used for.
func describe(t *Token) string {
	text := t.Role
	if len(t.Scopes) > 0 {
		text += " in " + strings.Join(t.Scopes, ", ")
	}
	if !t.Expires.IsZero() {
		text += " until " + t.Expires.UTC().Format(time.RFC3339)
	}
	return text
}

// ownerOf returns the name of the owner of a token.
func ownerOf(ctx context.Context, tx *sql.Tx, id int64) (name string, err error) {
	if id == 0 {
		return "a service", nil
	}
	err = tx.QueryRowContext(ctx, `SELECT name FROM admin_users WHERE id = $1`, id).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("its user %w", ErrNobody)
	}
	return name, err
}

// roomFor refuses a token beyond the bounds, or with a name that its owner has used.
func roomFor(ctx context.Context, tx *sql.Tx, t *Token) error {
	var all, own, same int
	err := tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE owner = $1), count(*) FILTER (WHERE coalesce(owner, 0) = $1 AND name = $2)
		FROM admin_tokens`, t.Owner, t.Name).Scan(&all, &own, &same)
	if err != nil {
		return err
	}
	switch {
	case all >= MaxTokens:
		return refused("there are %d tokens, the maximum: revoke some", all)
	case own >= maxUserTokens:
		return refused("the user has %d tokens, the maximum per user: revoke some", own)
	case same > 0:
		return refused("a token with this name already exists")
	}
	return nil
}

// RemoveToken revokes a token. An owner other than 0 revokes only its own tokens.
func (db *DB) RemoveToken(ctx context.Context, by, id string, owner int64) error {
	return db.changePeople(ctx, fmt.Sprintf("revoke token %.80q", id), validateName("actor", by), func(tx *sql.Tx) (Event, error) {
		var name string
		var of int64
		err := tx.QueryRowContext(ctx, `SELECT name, coalesce(owner, 0) FROM admin_tokens WHERE id = $1`, id).Scan(&name, &of)
		if errors.Is(err, sql.ErrNoRows) || err == nil && owner != 0 && owner != of {
			return Event{}, fmt.Errorf("the token %w", ErrNobody)
		}
		if err != nil {
			return Event{}, err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM admin_tokens WHERE id = $1`, id)
		return Event{Actor: by, Action: "token-revoke", Detail: fmt.Sprintf("%s (%s)", name, id)}, err
	})
}
