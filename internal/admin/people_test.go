package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/pgtest"
)

// password is that of all users in tests.
const password = "correct horse battery"

func (s *testAdmin) addUser(name, role string) {
	s.t.Helper()
	get[admin.NewPassword](s, "POST", "/v1/users", object("name", name, "role", role, "password", password))
}

func (s *testAdmin) loginRequest(name, password string) *http.Request {
	return s.request("POST", "/v1/session", object("user", name, "password", password))
}

// loginAs starts the session of a user.
func (s *testAdmin) loginAs(name string) *http.Cookie {
	s.t.Helper()
	w := s.serve(s.loginRequest(name, password))
	if w.Code != http.StatusOK {
		s.t.Fatalf("login of %s: %d %s", name, w.Code, w.Body)
	}
	return w.Result().Cookies()[0]
}

// with sends a request with a session.
func (s *testAdmin) with(c *http.Cookie, method, path, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := s.request(method, path, body)
	r.AddCookie(c)
	return s.serve(r)
}

// token creates an API token in the session of a user, or for a service without one.
func (s *testAdmin) token(c *http.Cookie, name, role string, more ...any) admin.NewToken {
	s.t.Helper()
	body := object(append([]any{"name", name, "role", role, "days", 30}, more...)...)
	var w *httptest.ResponseRecorder
	if c == nil {
		w = s.ask("POST", "/v1/tokens", body)
	} else {
		w = s.with(c, "POST", "/v1/tokens", body)
	}
	var made admin.NewToken
	if err := json.Unmarshal(w.Body.Bytes(), &made); w.Code != 200 || err != nil {
		s.t.Fatalf("create a token: %d %s", w.Code, w.Body)
	}
	return made
}

func (s *testAdmin) whoAmI(show func(*http.Request)) (int, admin.Session) {
	s.t.Helper()
	r := s.request("GET", "/v1/session", "")
	show(r)
	w := s.serve(r)
	var who admin.Session
	if err := json.Unmarshal(w.Body.Bytes(), &who); err != nil && w.Code == 200 {
		s.t.Fatal(err)
	}
	return w.Code, who
}

func TestUsersAndPasswords(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	if found := get[admin.Users](s, "GET", "/v1/users", ""); len(found.Users) != 0 {
		t.Errorf("%+v", found)
	}
	s.refused("POST", "/v1/users", object("name", "Ann B", "password", "short"), 400, admin.Invalid, `"name"`, `"role"`)
	s.refused("POST", "/v1/users", object("name", "ann", "role", "root"), 400, admin.Invalid, "root")
	s.refused("POST", "/v1/users", object("name", "ann", "role", "admin", "password", "short"), 400, admin.Invalid, "at least 12")
	s.refused("POST", "/v1/users", object("name", "ann", "role", "admin", "password", strings.Repeat("abcde", 60)), 400, admin.Invalid, "at most 256")
	s.refused("POST", "/v1/users", object("name", "ann", "role", "admin", "password", "i am called ann"), 400, admin.Invalid, "user name")
	made := get[admin.NewPassword](s, "POST", "/v1/users", object("name", "ann", "role", "admin"))
	if len(made.Password) < 20 || made.Role != admin.Administrator || made.Version != 1 || made.Login != nil {
		t.Errorf("%+v", made)
	}
	s.refused("POST", "/v1/users", object("name", "ann", "role", "viewer"), 409, admin.Conflict, "already")
	w := s.serve(s.loginRequest(" Ann ", made.Password))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"user":"ann"`) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	first := w.Result().Cookies()[0]
	eventually(t, "the login is recorded", func() bool { return get[admin.Users](s, "GET", "/v1/users", "").Users[0].Login != nil })

	// Concurrent edits: the second is based on what the first has changed.
	s.addUser("bob", "viewer")
	get[admin.NewPassword](s, "PUT", "/v1/users/bob", object("role", "operator", "version", 1))
	s.refused("PUT", "/v1/users/bob", object("role", "admin", "version", 1), 409, admin.Conflict, "it has changed")
	s.refused("DELETE", "/v1/users/bob", object("version", 1), 409, admin.Conflict, "it has changed")
	s.refused("PUT", "/v1/users/eve", object("role", "admin"), 404, admin.NotFound, "eve")
	s.refused("PUT", "/v1/users/eve/password", "{}", 404, admin.NotFound)
	s.refused("PUT", "/v1/users/ann", object("role", "viewer"), 409, admin.Conflict, "last admin")
	s.refused("DELETE", "/v1/users/ann", "{}", 409, admin.Conflict, "last admin")

	// A new password ends the other sessions of its user.
	second := func() *http.Cookie { return s.serve(s.loginRequest("ann", made.Password)).Result().Cookies()[0] }()
	for body, want := range map[string]int{
		object("current", "wrong password", "password", password): 401, object("current", made.Password, "password", "short"): 400,
		object("current", made.Password): 400, object("password", password): 401,
	} {
		if w := s.with(first, "POST", "/v1/session/password", body); w.Code != want {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	w = s.with(first, "POST", "/v1/session/password", object("current", made.Password, "password", password))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	renewed := w.Result().Cookies()[0]
	for cookie, want := range map[*http.Cookie]int{first: 401, second: 401, renewed: 200} {
		if got, _ := s.whoAmI(with(cookie)); got != want {
			t.Errorf("after a change of the password: %d, want %d", got, want)
		}
	}
	if w := s.serve(s.loginRequest("ann", made.Password)); w.Code != 401 {
		t.Errorf("the old password: %d", w.Code)
	}
	get[admin.NewPassword](s, "PUT", "/v1/users/ann/password", object("password", password+"!"))
	if got, _ := s.whoAmI(with(renewed)); got != 401 {
		t.Errorf("after an admin has set the password: %d", got)
	}
	if w := s.askAs(operatorToken, "POST", "/v1/session/password", object("current", "x", "password", password)); w.Code != 409 {
		t.Errorf("a token changes a password: %d %s", w.Code, w.Body)
	}

	for _, secret := range []string{made.Password, password, "argon2"} {
		for name, text := range map[string]string{"log": s.log.String(), "audit": s.ask("GET", "/v1/audit", "").Body.String(), "users": s.ask("GET", "/v1/users", "").Body.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %s", name, secret)
			}
		}
	}
}

// The audit and the versions of rules name the person, and how they were authenticated.
func TestAuditNamesPeople(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.addUser("ann", "admin")
	session := s.loginAs("ann")
	token := s.token(session, "laptop", "operator")
	service := s.token(session, "deploy", "operator", "service", true)
	actors := map[string]func(*http.Request){
		"ann (admin) at": with(session), "ann (operator, token laptop) at": bearer(token.Secret), "token deploy (operator) at": bearer(service.Secret), "admin.token ": bearer(operatorToken),
	}
	for actor, show := range actors {
		r := s.request("POST", "/v1/keys/reset", object("attributes", map[string]string{"user": actor}))
		show(r)
		if w := s.serve(r); w.Code != 200 {
			t.Fatalf("%s: %d %s", actor, w.Code, w.Body)
		}
		audit := get[admin.AuditPage](s, "GET", "/v1/audit?limit=10", "")
		if !slices.ContainsFunc(audit.Events, func(d admin.AuditEntry) bool { return d.Action == "reset" && strings.HasPrefix(d.Actor, actor) }) {
			t.Errorf("%s is not in %+v", actor, audit.Events)
		}
	}
	r := s.request("PUT", "/v1/rules", object("document", strings.Replace(someRules, "3/1h", "5/1h", 1), "base", 1))
	with(session)(r)
	var saved admin.SaveResult
	if err := json.Unmarshal(s.serve(r).Body.Bytes(), &saved); err != nil || !strings.HasPrefix(saved.Version.Author, "ann (admin) at 10.") {
		t.Errorf("%+v %v", saved, err)
	}
	audit := get[admin.AuditPage](s, "GET", "/v1/audit?limit=20", "")
	var texts []string
	for _, d := range audit.Events {
		texts = append(texts, d.Action+" "+string(d.Detail))
	}
	for _, want := range []string{"user-add ann as admin", "token-create laptop (" + token.ID + ") for ann, operator until ", "token-create deploy (" + service.ID + ") for a service, operator until "} {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, want) }) {
			t.Errorf("%q is not in %q", want, texts)
		}
	}
}

// While the database is down, admin.token and known users keep working, for an hour; changes fail. When it is back,
// changes made elsewhere apply.
func TestPeopleWithoutTheirDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	source, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := newTestAdmin(t, setup{database: source})
	s.addUser("ann", "admin")
	session := s.loginAs("ann")
	token := s.token(session, "laptop", "viewer")
	if code, _ := s.whoAmI(bearer(token.Secret)); code != 200 {
		t.Fatal(code)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s.clock.pass(3 * time.Second)
	for name, show := range map[string]func(*http.Request){"admin.token": bearer(operatorToken), "a session": with(session), "a token": bearer(token.Secret)} {
		if code, _ := s.whoAmI(show); code != 200 {
			t.Errorf("%s without the database: %d", name, code)
		}
	}
	if w := s.serve(s.loginRequest("ann", password)); w.Code != 200 {
		t.Errorf("a login without the database: %d %s", w.Code, w.Body)
	}
	if w := s.serve(s.loginRequest("ann", "wrong password")); w.Code != 401 {
		t.Errorf("a wrong password without the database: %d %s", w.Code, w.Body)
	}
	// A token that is not known here may have been created on another node. Guesses are limited anyway.
	for i := range 15 {
		want := 503
		if i >= 10 {
			want = 429
		}
		r := s.request("GET", "/v1/session", "", "Authorization", "Bearer pen_unknown")
		r.RemoteAddr = "192.0.2.1:1"
		if w := s.serve(r); w.Code != want || i == 0 && !strings.Contains(w.Body.String(), "cannot check the API token") {
			t.Errorf("unknown token %d without the database: %d %s, want %d", i, w.Code, w.Body, want)
		}
	}
	if w := s.with(session, "POST", "/v1/users", object("name", "bob", "role", "viewer")); w.Code != 503 {
		t.Errorf("a change without the database: %d %s", w.Code, w.Body)
	}
	for range 3 { // used, so that the session is not idle
		s.clock.pass(25 * time.Minute)
		s.whoAmI(with(session))
	}
	for name, show := range map[string]func(*http.Request){"a session": with(session), "a token": bearer(token.Secret)} {
		if code, _ := s.whoAmI(show); code != 503 {
			t.Errorf("%s an hour later: %d", name, code)
		}
	}
	if code, _ := s.whoAmI(bearer(operatorToken)); code != 200 {
		t.Errorf("admin.token an hour later: %d", code)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session works again", func() bool {
		s.clock.pass(3 * time.Second)
		code, _ := s.whoAmI(with(session))
		return code == 200
	})
	if w := s.askAs("pen_unknown", "GET", "/v1/session", ""); w.Code != 401 {
		t.Errorf("an unknown token with the database: %d %s", w.Code, w.Body)
	}

	// Another node removes the user.
	other := newTestAdmin(t, setup{database: source, kept: true})
	get[admin.Users](other, "DELETE", "/v1/users/ann", "{}")
	eventually(t, "the removal is known here", func() bool {
		s.clock.pass(3 * time.Second)
		one, _ := s.whoAmI(with(session))
		two, _ := s.whoAmI(bearer(token.Secret))
		return one == 401 && two == 401
	})
}

// A node whose rules come from a file has no users, and says what to do.
func TestNoDatabaseForPeople(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{kind: admin.Files})
	s.refused("GET", "/v1/users", "", 409, admin.Conflict, "admin.database")
	s.refused("POST", "/v1/tokens", object("name", "x", "role", "viewer", "days", 1), 409, admin.Conflict, "admin.database")
	if w := s.serve(s.loginRequest("ann", password)); w.Code != 409 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.askAs("pen_ABCDEFGHIJKLMNOP", "GET", "/v1/status", ""); w.Code != 401 {
		t.Errorf("an API token: %d %s", w.Code, w.Body)
	}
}
