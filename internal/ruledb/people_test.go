package ruledb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

func people(t *testing.T, db *DB) People {
	t.Helper()
	all, err := db.People(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func user(t *testing.T, db *DB, name string) User {
	t.Helper()
	for _, u := range people(t, db).Users {
		if u.Name == name {
			return u
		}
	}
	t.Fatalf("there is no user %s", name)
	return User{}
}

func addUser(t *testing.T, db *DB, name, role string) User {
	t.Helper()
	if err := db.AddUser(t.Context(), "test", User{Name: name, Role: role, Password: "hash of " + name}); err != nil {
		t.Fatal(err)
	}
	return user(t, db, name)
}

func newToken(id, name, role string, owner int64) Token {
	return Token{ID: id, Digest: sha256.Sum256([]byte(id)), Name: name, Role: role, Owner: owner, By: "test"}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		if all := people(t, db); len(all.Users) != 0 || len(all.Tokens) != 0 {
			t.Errorf("a new database has %+v", all)
		}
		before := people(t, db).Revision
		ann := addUser(t, db, "ann", "admin")
		if ann.Role != "admin" || ann.Password != "hash of ann" || ann.Version != 1 || ann.Created.IsZero() || !ann.LoggedIn.IsZero() || people(t, db).Revision == before {
			t.Errorf("%+v", ann)
		}
		addUser(t, db, "bob", "viewer")
		steps := []struct {
			name    string
			do      func(context.Context) error
			want    error
			mention string
		}{
			{"a name that is taken", func(ctx context.Context) error { return db.AddUser(ctx, "test", User{Name: "ann", Role: "viewer"}) }, ErrRefused, "already"},
			{"an invalid name", func(ctx context.Context) error { return db.AddUser(ctx, "test", User{Name: "Ann B", Role: "viewer"}) }, penstock.ErrInvalid, "Ann B"},
			{"no name", func(ctx context.Context) error { return db.AddUser(ctx, "test", User{Role: "viewer"}) }, penstock.ErrInvalid, "invalid name"},
			{"a long name", func(ctx context.Context) error {
				return db.AddUser(ctx, "test", User{Name: strings.Repeat("a", 65), Role: "viewer"})
			}, penstock.ErrInvalid, "64"},
			{"an unknown role", func(ctx context.Context) error { return db.AddUser(ctx, "test", User{Name: "eve", Role: "root"}) }, penstock.ErrInvalid, "root"},
			{"no actor", func(ctx context.Context) error { return db.AddUser(ctx, "", User{Name: "eve", Role: "viewer"}) }, penstock.ErrInvalid, "actor"},
			{"nobody", func(ctx context.Context) error { return db.ChangeUser(ctx, "test", "eve", UserChange{Role: "admin"}) }, ErrNobody, "eve"},
			{"remove nobody", func(ctx context.Context) error { return db.RemoveUser(ctx, "test", "eve", 0) }, ErrNobody, "eve"},
			{"demote the last admin", func(ctx context.Context) error {
				return db.ChangeUser(ctx, "test", "ann", UserChange{Role: "operator"})
			}, ErrRefused, "last admin"},
			{"remove the last admin", func(ctx context.Context) error { return db.RemoveUser(ctx, "test", "ann", 0) }, ErrRefused, "last admin"},
			{"an edit of an older state", func(ctx context.Context) error {
				return db.ChangeUser(ctx, "test", "bob", UserChange{Version: 9, Role: "admin"})
			}, ErrRefused, "it has changed"},
			{"a removal of an older state", func(ctx context.Context) error { return db.RemoveUser(ctx, "test", "bob", 9) }, ErrRefused, "it has changed"},
			{"promote", func(ctx context.Context) error {
				return db.ChangeUser(ctx, "test", "bob", UserChange{Version: 1, Role: "admin"})
			}, nil, ""},
			{"demote one of two", func(ctx context.Context) error { return db.ChangeUser(ctx, "test", "ann", UserChange{Role: "viewer"}) }, nil, ""},
			{"a password", func(ctx context.Context) error { return db.ChangeUser(ctx, "test", "ann", UserChange{Password: "new"}) }, nil, ""},
			{"remove the other", func(ctx context.Context) error { return db.RemoveUser(ctx, "test", "ann", 3) }, nil, ""},
			{"remove the only one", func(ctx context.Context) error { return db.RemoveUser(ctx, "test", "bob", 0) }, nil, ""},
		}
		for _, step := range steps {
			was := people(t, db).Revision
			err := step.do(t.Context())
			if !errors.Is(err, step.want) || err != nil && !strings.Contains(err.Error(), step.mention) || errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", step.name, err)
			}
			if changed := people(t, db).Revision != was; changed != (step.want == nil) {
				t.Errorf("%s: the revision changed: %v", step.name, changed)
			}
		}
		audit, err := db.Audit(t.Context(), 0, 3)
		if err != nil || audit[0].Action != "user-remove" || audit[0].Detail != "bob, who was admin" || audit[2].Action != "user-password" || audit[2].Detail != "ann" {
			t.Errorf("%+v, %v", audit, err)
		}
		if again := addUser(t, db, "ann", "viewer"); again.ID == ann.ID {
			t.Error("a new user has the id of one that was removed")
		}
	})
}

func TestPasswordChangesTheEpoch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		first := addUser(t, db, "ann", "admin")
		if err := db.Rehash(t.Context(), &first, "stronger"); err != nil {
			t.Fatal(err)
		}
		if u := user(t, db, "ann"); u.Password != "stronger" || u.Epoch != first.Epoch {
			t.Errorf("%+v", u)
		}
		if err := db.ChangeUser(t.Context(), "ann", "ann", UserChange{Password: "new"}); err != nil {
			t.Fatal(err)
		}
		if err := db.Rehash(t.Context(), &first, "of the old password"); err != nil {
			t.Fatal(err)
		}
		if u := user(t, db, "ann"); u.Password != "new" || u.Epoch == first.Epoch || u.Role != "admin" {
			t.Errorf("%+v", u)
		}
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		ann, bob := addUser(t, db, "ann", "admin"), addUser(t, db, "bob", "viewer")
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		laptop := newToken("aaaa1111", "laptop", "operator", ann.ID)
		laptop.Scopes, laptop.Expires = []string{"keys", "rules"}, expires
		for _, token := range []Token{laptop, newToken("bbbb2222", "laptop", "viewer", bob.ID), newToken("cccc3333", "prometheus", "viewer", 0)} {
			if err := db.AddToken(t.Context(), "test", token); err != nil {
				t.Fatal(err)
			}
		}
		got := people(t, db).Tokens
		if len(got) != 3 || got[0].ID != "aaaa1111" || got[0].Digest != laptop.Digest || got[0].Owner != ann.ID || !got[0].Expires.Equal(expires) ||
			fmt.Sprint(got[0].Scopes) != "[keys rules]" || len(got[2].Scopes) != 0 || got[2].Owner != 0 || !got[2].Expires.IsZero() || !got[2].Used.IsZero() {
			t.Errorf("%+v", got)
		}
		for name, bad := range map[string]Token{
			"a name that is taken": newToken("dddd4444", "laptop", "viewer", ann.ID), "the name of a service": newToken("dddd4444", "prometheus", "viewer", 0),
			"nobody's": newToken("dddd4444", "x", "viewer", 99), "a bad name": newToken("dddd4444", "X Y", "viewer", 0), "a bad role": newToken("dddd4444", "x", "root", 0),
			"a bad scope": {ID: "dddd4444", Name: "x", Role: "viewer", Scopes: []string{"a b"}}, "a bad id": newToken("d'; --", "x", "viewer", 0),
			"many scopes": {ID: "dddd4444", Name: "x", Role: "viewer", Scopes: make([]string, 33)},
		} {
			if err := db.AddToken(t.Context(), "test", bad); err == nil || errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
		}
		was := people(t, db).Revision
		if err := db.RecordUse(t.Context(), map[int64]time.Time{ann.ID: expires}, map[string]time.Time{"aaaa1111": expires, "none": expires}); err != nil {
			t.Fatal(err)
		}
		if err := db.RecordUse(t.Context(), nil, map[string]time.Time{"aaaa1111": expires.Add(-time.Minute)}); err != nil {
			t.Fatal(err)
		}
		if all := people(t, db); all.Revision != was || !all.Tokens[0].Used.Equal(expires) || !all.Users[0].LoggedIn.Equal(expires) {
			t.Errorf("%+v", all)
		}
		if err := db.RemoveToken(t.Context(), "bob", "aaaa1111", bob.ID); !errors.Is(err, ErrNobody) {
			t.Errorf("bob revokes the token of ann: %v", err)
		}
		if err := db.RemoveToken(t.Context(), "test", "cccc3333", 0); err != nil {
			t.Error(err)
		}
		if err := db.RemoveUser(t.Context(), "test", "bob", 0); err != nil {
			t.Fatal(err)
		}
		if got := people(t, db).Tokens; len(got) != 1 || got[0].ID != "aaaa1111" {
			t.Errorf("the tokens of a removed user: %+v", got)
		}
	})
}

// Two admins who demote each other at the same time leave one.
func TestOneAdminIsLeft(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, source string) {
		db := open(t, source)
		addUser(t, db, "eve", "viewer")
		for round := range 5 {
			names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
			for _, name := range names {
				addUser(t, db, name, "admin")
			}
			for _, u := range people(t, db).Users { // those of earlier rounds
				if u.Role == "admin" && u.Name != names[0] && u.Name != names[1] {
					if err := db.ChangeUser(t.Context(), "test", u.Name, UserChange{Role: "viewer"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			var all sync.WaitGroup
			for _, name := range names {
				all.Go(func() {
					if err := db.ChangeUser(context.WithoutCancel(t.Context()), "test", name, UserChange{Role: "viewer"}); err != nil && !errors.Is(err, ErrRefused) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := countAdmins(people(t, db)); n != 1 {
				t.Fatalf("%d admins are left", n)
			}
		}
	})
}

func countAdmins(all People) (n int) {
	for _, u := range all.Users {
		if u.Role == adminRole {
			n++
		}
	}
	return n
}
