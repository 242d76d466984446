package ruledb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A User may log in to the admin API.
type User struct {
	ID       int64 // unlike the name, never given to another user
	Name     string
	Role     string
	Password string // its hash
	Version  int64  // of this entry: a change names the one it is based on
	Epoch    int64  // changes with the password
	Created  time.Time
	LoggedIn time.Time // zero: never
}

func (db *DB) users(ctx context.Context) ([]User, error) {
	return readAll(ctx, db, "read the users of", `SELECT id, name, role, password, version, epoch, created_at, login_at FROM admin_users ORDER BY name`, nil,
		func(u *User) []any {
			return []any{&u.ID, &u.Name, &u.Role, &u.Password, &u.Version, &u.Epoch, timeColumn(&u.Created), timeColumn(&u.LoggedIn)}
		})
}

// AddUser adds a user with a name, a role and the hash of a password. by is who adds it.
func (db *DB) AddUser(ctx context.Context, by string, u User) error {
	invalid := errors.Join(validateName("actor", by), CheckName(u.Name), checkRole(u.Role))
	return db.changePeople(ctx, fmt.Sprintf("add user %q", u.Name), invalid, func(tx *sql.Tx) (Event, error) {
		n, _, err := countUsers(ctx, tx)
		if err == nil && n >= MaxUsers {
			err = refused("there are %d users, the maximum", n)
		}
		if err != nil {
			return Event{}, err
		}
		added, err := changes(ctx, tx, `INSERT INTO admin_users (name, role, password, version, epoch, created_at, login_at)
			VALUES ($1, $2, $3, 1, 1, $4, 0) ON CONFLICT (name) DO NOTHING`, u.Name, u.Role, u.Password, micros(time.Now()))
		if err == nil && !added {
			err = refused("a user with this name already exists")
		}
		return Event{Actor: by, Action: "user-add", Detail: fmt.Sprintf("%s as %s", u.Name, u.Role)}, err
	})
}

// A UserChange replaces parts of a user.
type UserChange struct {
	Version  int64  // of the user that it is based on; 0: any
	Role     string // "": as it is
	Password string // the hash of a new one, which ends all sessions of the user; "": as it is
}

// ChangeUser changes a user. by is who changes it.
func (db *DB) ChangeUser(ctx context.Context, by, name string, c UserChange) error {
	invalid := validateName("actor", by)
	if c.Role != "" {
		invalid = errors.Join(invalid, checkRole(c.Role))
	}
	return db.changePeople(ctx, fmt.Sprintf("change user %.80q", name), invalid, func(tx *sql.Tx) (Event, error) {
		u, err := userFor(ctx, tx, name, c.Version)
		if err != nil {
			return Event{}, err
		}
		e := Event{Actor: by, Action: "user-password", Detail: name}
		if c.Role != "" && c.Role != u.Role {
			e.Action, e.Detail = "user-role", fmt.Sprintf("%s from %s to %s", name, u.Role, c.Role)
			if err := keepAdmin(ctx, tx, u); err != nil {
				return Event{}, err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE admin_users SET version = version + 1, role = CASE WHEN $1 = '' THEN role ELSE $1 END,
			epoch = CASE WHEN $2 = '' THEN epoch ELSE epoch + 1 END, password = CASE WHEN $2 = '' THEN password ELSE $2 END
			WHERE id = $3`, c.Role, c.Password, u.ID)
		return e, err
	})
}

// Rehash replaces the hash of a user's password by another one of the same password, unless the password has changed
// since.
func (db *DB) Rehash(ctx context.Context, u *User, hash string) error {
	return db.inTransaction(ctx, "hash a password again in", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE admin_users SET password = $1 WHERE id = $2 AND password = $3`, hash, u.ID, u.Password)
		return err
	})
}

// RemoveUser removes a user and all its tokens. version is that of the user as the caller knows it, or 0.
func (db *DB) RemoveUser(ctx context.Context, by, name string, version int64) error {
	return db.changePeople(ctx, fmt.Sprintf("remove user %.80q", name), validateName("actor", by), func(tx *sql.Tx) (Event, error) {
		u, err := userFor(ctx, tx, name, version)
		if err != nil {
			return Event{}, err
		}
		if err := keepAdmin(ctx, tx, u); err != nil {
			return Event{}, err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM admin_users WHERE id = $1`, u.ID)
		return Event{Actor: by, Action: "user-remove", Detail: fmt.Sprintf("%s, who was %s", name, u.Role)}, err
	})
}

// userFor returns a user that is about to be changed.
func userFor(ctx context.Context, tx *sql.Tx, name string, version int64) (*User, error) {
	u := User{Name: name}
	err := tx.QueryRowContext(ctx, `SELECT id, role, version FROM admin_users WHERE name = $1`, name).Scan(&u.ID, &u.Role, &u.Version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("the user %w", ErrNobody)
	case err != nil:
		return nil, err
	case version != 0 && version != u.Version:
		return nil, refused("it has changed: load it again")
	}
	return &u, nil
}

// keepAdmin refuses a change that takes the role from the last admin while there are other users.
func keepAdmin(ctx context.Context, tx *sql.Tx, u *User) error {
	if u.Role != adminRole {
		return nil
	}
	all, admins, err := countUsers(ctx, tx)
	if err == nil && admins == 1 && all > 1 {
		err = refused("this is the last admin: make another user an admin first")
	}
	return err
}

func countUsers(ctx context.Context, tx *sql.Tx) (all, admins int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE role = $1) FROM admin_users`, adminRole).Scan(&all, &admins)
	return all, admins, err
}
