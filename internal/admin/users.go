package admin

import (
	"net/http"
	"slices"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/wire"
)

// A User may log in, as administrators see it.
type User struct {
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Version int64      `json:"version"` // a change names it, so that nobody overwrites a change unseen
	Created time.Time  `json:"created"`
	Login   *time.Time `json:"last_login,omitempty"`
}

// Users are all users, by name.
type Users struct {
	Users []User `json:"users"`
}

// A NewPassword is a user and, if the server made it, the password. It is not shown again.
type NewPassword struct {
	User
	Password string `json:"password,omitempty"`
}

func userOf(u *ruledb.User) User {
	return User{Name: u.Name, Role: roleOf(u.Role), Version: u.Version, Created: u.Created, Login: timeOrNil(u.LoggedIn)}
}

// name identifies a client across its sessions and addresses.
func (c *principal) name() string {
	switch {
	case c.user != nil:
		return "user " + c.user.Name
	case c.token != nil:
		return "token " + c.token.ID
	}
	return "configuration"
}

func (a *Admin) listUsers(x *apiRequest) (any, error) {
	all, err := a.readPeople(x)
	if err != nil {
		return nil, err
	}
	return Users{each(all.Users, userOf)}, nil
}

// readPeople reads users and tokens from the database, with the latest times of use.
func (a *Admin) readPeople(x *apiRequest) (ruledb.People, error) {
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return ruledb.People{}, err
	}
	return db.People(x.r.Context())
}

// tellUser returns a user after a change. The directory learns of the change.
func (a *Admin) tellUser(x *apiRequest, name, made string) (any, error) {
	a.people.changed()
	all, err := a.readPeople(x)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Users, func(u ruledb.User) bool { return u.Name == name })
	if i < 0 {
		return nil, refuse(http.StatusNotFound, NotFound, "the user was removed meanwhile")
	}
	return NewPassword{userOf(&all.Users[i]), made}, nil
}

func (a *Admin) addUser(x *apiRequest, asked *struct {
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Password string `json:"password"`
}) (any, error) {
	var mistakes wire.FieldErrors
	if err := ruledb.CheckName(asked.Name); err != nil {
		mistakes.Add("name", "%v", err)
	}
	if asked.Role == nobody {
		mistakes.Add("role", "is missing: viewer, operator or admin")
	}
	if err := mistakes.Err(); err != nil {
		return nil, err
	}
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	hash, made, err := a.hashFor(x.r.Context(), asked.Name, asked.Password)
	if err != nil {
		return nil, err
	}
	if err := db.AddUser(x.r.Context(), x.who.String(), ruledb.User{Name: asked.Name, Role: asked.Role.String(), Password: hash}); err != nil {
		return nil, err
	}
	return a.tellUser(x, asked.Name, made)
}

func (a *Admin) changeUser(x *apiRequest, asked *struct {
	Role    Role  `json:"role"`
	Version int64 `json:"version"`
}) (any, error) {
	if asked.Role == nobody {
		return nil, mistake("role", "is missing: viewer, operator or admin")
	}
	return a.change(x, ruledb.UserChange{Version: asked.Version, Role: asked.Role.String()}, "")
}

func (a *Admin) setPassword(x *apiRequest, asked *struct {
	Password string `json:"password"`
}) (any, error) {
	hash, made, err := a.hashFor(x.r.Context(), x.r.PathValue("name"), asked.Password)
	if err != nil {
		return nil, err
	}
	return a.change(x, ruledb.UserChange{Password: hash}, made)
}

// change changes the user that the path names.
func (a *Admin) change(x *apiRequest, c ruledb.UserChange, made string) (any, error) {
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	name := x.r.PathValue("name")
	if err := db.ChangeUser(x.r.Context(), x.who.String(), name, c); err != nil {
		return nil, err
	}
	return a.tellUser(x, name, made)
}

func (a *Admin) removeUser(x *apiRequest, asked *struct {
	Version int64 `json:"version"`
}) (any, error) {
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	if err := db.RemoveUser(x.r.Context(), x.who.String(), x.r.PathValue("name"), asked.Version); err != nil {
		return nil, err
	}
	a.people.changed()
	return a.listUsers(x)
}

// changeOwnPassword lets users replace their password. It ends their other sessions.
func (a *Admin) changeOwnPassword(x *apiRequest, asked *struct {
	Current  string `json:"current"`
	Password string `json:"password"`
}) (any, error) {
	if x.who.user == nil || x.who.session == nil {
		return nil, refuse(http.StatusConflict, Conflict, "requires a session of a user: a token has no password")
	}
	if asked.Password == "" {
		return nil, mistake("password", "is missing: the new password")
	}
	if err := a.logins.mayChange(x); err != nil {
		return nil, err
	}
	u, err := a.checkPassword(x, x.who.user.Name, asked.Current)
	if err != nil {
		return nil, err
	}
	hash, _, err := a.hashFor(x.r.Context(), u.Name, asked.Password)
	if err != nil {
		return nil, err
	}
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	if err := db.ChangeUser(x.r.Context(), x.who.String(), u.Name, ruledb.UserChange{Version: u.Version, Password: hash}); err != nil {
		return nil, err
	}
	return a.renew(x, u)
}

// renew begins a new session for a user whose password was just changed.
func (a *Admin) renew(x *apiRequest, u *ruledb.User) (any, error) {
	a.people.changed()
	people, problem := a.people.latest(x.r.Context())
	if problem != nil {
		return nil, problem
	}
	now := people.byID[u.ID]
	if now == nil {
		return nil, errOver("the user was removed")
	}
	x.who.credential.user, x.who.credential.epoch = now.ID, now.Epoch
	return a.beginSession(x)
}
