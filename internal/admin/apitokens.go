package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/wire"
)

// tokenPrefix begins every API token, so that scanners find tokens in code and logs.
const tokenPrefix = "pen_"

// maxTokenDays bounds the life of tokens that expire.
const maxTokenDays = 3650

// A Token is an API token without its secret.
type Token struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	User    string     `json:"user,omitempty"` // whose it is; none: a service
	Role    Role       `json:"role"`           // at most: never more than that of its user
	Scopes  []string   `json:"scopes"`         // none: everything the role may do
	By      string     `json:"created_by"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Used    *time.Time `json:"last_used,omitempty"` // to the minute
	Expired bool       `json:"expired,omitempty"`
}

// Tokens are the API tokens that a client may see: its own, or all.
type Tokens struct {
	Tokens []Token  `json:"tokens"`
	Scopes []string `json:"scopes"` // that a token can have
}

// A NewToken is a token and its secret, which is not shown again.
type NewToken struct {
	Token
	Secret string `json:"secret"`
}

func (a *Admin) listTokens(x *apiRequest) (any, error) {
	all, err := a.readPeople(x)
	if err != nil {
		return nil, err
	}
	told := Tokens{Tokens: []Token{}, Scopes: a.scopes()}
	for i := range all.Tokens {
		if t := &all.Tokens[i]; x.who.mayManage(t.Owner) {
			told.Tokens = append(told.Tokens, a.tokenOf(t, all.Users))
		}
	}
	return told, nil
}

// mayManage reports whether the client may see and revoke tokens of an owner.
func (c *principal) mayManage(owner int64) bool {
	return c.role >= Administrator || c.user != nil && c.user.ID == owner
}

func (a *Admin) tokenOf(t *ruledb.Token, users []ruledb.User) Token {
	told := Token{
		ID: t.ID, Name: t.Name, Role: roleOf(t.Role), Scopes: append([]string{}, t.Scopes...), By: t.By,
		Created: t.Created, Expires: timeOrNil(t.Expires), Used: timeOrNil(t.Used), Expired: !t.Expires.IsZero() && !a.Now().Before(t.Expires),
	}
	if i := slices.IndexFunc(users, func(u ruledb.User) bool { return u.ID == t.Owner }); i >= 0 {
		told.User = users[i].Name
	}
	return told
}

// A tokenRequest is a token that somebody wants to create.
type tokenRequest struct {
	Name    string   `json:"name"`
	Role    Role     `json:"role"`
	Scopes  []string `json:"scopes"`
	Days    *int     `json:"days"`    // until it expires; 0: never
	Service bool     `json:"service"` // it belongs to no user
}

func (a *Admin) createToken(x *apiRequest, asked *tokenRequest) (any, error) {
	token, err := a.newToken(x, asked)
	if err != nil {
		return nil, err
	}
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	if err := a.logins.mayChange(x); err != nil {
		return nil, err
	}
	secret := tokenPrefix + rand.Text() + rand.Text()
	token.Digest = sha256.Sum256([]byte(secret))
	if err := db.AddToken(x.r.Context(), x.who.String(), *token); err != nil {
		return nil, err
	}
	a.people.changed()
	var users []ruledb.User
	if x.who.user != nil {
		users = []ruledb.User{*x.who.user}
	}
	return NewToken{a.tokenOf(token, users), secret}, nil
}

// newToken returns the token that is asked for, or everything that is wrong with it. It cannot do more, in other
// scopes or for longer than what the client itself has authenticated with.
func (a *Admin) newToken(x *apiRequest, asked *tokenRequest) (*ruledb.Token, error) {
	var mistakes wire.FieldErrors
	now := a.Now().UTC().Truncate(time.Microsecond)
	t := &ruledb.Token{ID: strings.ToLower(rand.Text()[:8]), Name: asked.Name, Role: asked.Role.String(), Scopes: asked.Scopes, By: x.who.String(), Created: now}
	if err := ruledb.CheckName(asked.Name); err != nil {
		mistakes.Add("name", "%v", err)
	}
	switch {
	case asked.Role == nobody:
		mistakes.Add("role", "is missing: viewer, operator or admin")
	case asked.Role > x.who.role:
		mistakes.Add("role", "%v is more than your own role, %v", asked.Role, x.who.role)
	}
	a.checkScopes(x, asked, &mistakes)
	t.Expires = expiry(x, asked, now, &mistakes)
	switch {
	case x.who.user != nil && !asked.Service:
		t.Owner = x.who.user.ID
	case x.who.role < Administrator:
		mistakes.Add("service", "only admins create tokens that belong to no user")
	}
	return t, mistakes.Err()
}

// checkScopes adds what is wrong with the scopes of a new token.
func (a *Admin) checkScopes(x *apiRequest, asked *tokenRequest, mistakes *wire.FieldErrors) {
	for _, s := range asked.Scopes {
		if !slices.Contains(a.scopes(), s) {
			mistakes.Add("scopes", "unknown scope %.40q: must be one of %s", s, strings.Join(a.scopes(), ", "))
		}
	}
	if !areAmong(asked.Scopes, x.who.scopes) {
		mistakes.Add("scopes", "must be among those of your own token: %s", strings.Join(x.who.scopes, ", "))
	}
}

// expiry returns when a new token expires, and adds what is wrong with that.
func expiry(x *apiRequest, asked *tokenRequest, now time.Time, mistakes *wire.FieldErrors) (at time.Time) {
	switch days := asked.Days; {
	case days == nil:
		mistakes.Add("days", "is missing: days until the token expires, 0 for never")
	case *days < 0 || *days > maxTokenDays:
		mistakes.Add("days", "must be 0 to %d, is %d", maxTokenDays, *days)
	case *days > 0:
		at = now.AddDate(0, 0, *days)
	}
	if own := x.who.token; own != nil && !own.Expires.IsZero() && (at.IsZero() || at.After(own.Expires)) {
		mistakes.Add("days", "it must not last longer than your own token, until %s", own.Expires.UTC().Format(time.RFC3339))
	}
	return at
}

// areAmong reports whether scopes are among others. None are all.
func areAmong(scopes, others []string) bool {
	if len(others) == 0 {
		return true
	}
	return len(scopes) > 0 && !slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(others, s) })
}

func (a *Admin) revokeToken(x *apiRequest) (any, error) {
	db, err := a.people.database(x.r.Context())
	if err != nil {
		return nil, err
	}
	if err := a.logins.mayChange(x); err != nil {
		return nil, err
	}
	id := x.r.PathValue("id")
	owner, problem := a.revocableOwner(x, id)
	if problem != nil {
		return nil, problem
	}
	if err := db.RemoveToken(x.r.Context(), x.who.String(), id, owner); err != nil {
		return nil, err
	}
	a.people.changed()
	return a.listTokens(x)
}

// revocableOwner returns whose tokens the client may revoke; 0: anybody's. A token does not revoke one that may do
// more, so that anyone who finds it cannot lock out its user.
func (a *Admin) revocableOwner(x *apiRequest, id string) (owner int64, _ *Problem) {
	if x.who.role >= Administrator {
		return 0, nil
	}
	if x.who.user == nil {
		return 0, refuse(http.StatusNotFound, NotFound, "you have no API tokens")
	}
	people, problem := a.people.latest(x.r.Context())
	if problem != nil {
		return 0, problem
	}
	if t := people.tokens[id]; t != nil && x.who.token != nil && roleOf(t.Role) > x.who.role {
		return 0, refuse(http.StatusForbidden, Forbidden, fmt.Sprintf("the token has the role %s, yours is %v", t.Role, x.who.role))
	}
	return x.who.user.ID, nil
}
