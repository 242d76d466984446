package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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

// Everybody, with every kind of credential, requests every operation of the OpenAPI document. Exactly those with the
// role and the scope that the document names are let in.
func TestRolesAndScopesOfEveryOperation(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	type access struct {
		name   string
		role   string   // that the document would have to name, or a lesser one
		scopes []string // none: all
		show   func(*http.Request)
	}
	all := []access{
		{"nothing", "anybody", nil, func(*http.Request) {}},
		{"admin.token", "admin", nil, bearer(operatorToken)},
		{"admin.viewer_token", "viewer", nil, bearer(viewerToken)},
	}
	roles := []string{"viewer", "operator", "admin"}
	for _, name := range roles {
		s.addUser("the-"+name, name)
	}
	for i, name := range roles {
		session := s.loginAs("the-" + name)
		all = append(all, access{name + " by password", name, nil, with(session)})
		for _, lesser := range roles[:i+1] {
			token := s.token(session, "as-"+lesser, lesser)
			all = append(all, access{"a token of " + name + " as " + lesser, lesser, nil, bearer(token.Secret)})
		}
		service := s.token(nil, "service-"+name, name, "service", true)
		all = append(all, access{"a service as " + name, name, nil, bearer(service.Secret)})
		limited := s.token(session, "scoped", name, "scopes", []string{"rules", "metrics"})
		all = append(all, access{"a token of " + name + " for rules", name, []string{"rules", "metrics"}, bearer(limited.Secret)},
			access{"a session of that token", name, []string{"rules", "metrics"}, with(s.login(limited.Secret))})
	}
	s.addUser("demoted", "admin")
	session := s.loginAs("demoted")
	token := s.token(session, "old", "admin")
	get[admin.NewPassword](s, "PUT", "/v1/users/demoted", object("role", "viewer"))
	all = append(all, access{"a session of one who was demoted", "viewer", nil, with(session)}, access{"a token of one who was demoted", "viewer", nil, bearer(token.Secret)})

	s.addUser("removed", "admin")
	session = s.loginAs("removed")
	token = s.token(session, "old", "admin")
	get[admin.Users](s, "DELETE", "/v1/users/removed", "{}")
	revoked := s.token(nil, "revoked", "admin")
	get[admin.Tokens](s, "DELETE", "/v1/tokens/"+revoked.ID, "")
	all = append(all, access{"a session of one who was removed", "anybody", nil, with(session)}, access{"a token of one who was removed", "anybody", nil, bearer(token.Secret)},
		access{"a token that was revoked", "anybody", nil, bearer(revoked.Secret)}, access{"half a token", "anybody", nil, bearer(token.Secret[:20])})

	rank := append([]string{"anybody"}, roles...)
	checked := 0
	for operation, about := range theDocument(t).Operations() {
		method, path, _ := strings.Cut(operation, " ")
		for _, a := range all {
			if operation == "DELETE /v1/session" && strings.Contains(a.name, "session") || operation == "DELETE /v1/session" && strings.Contains(a.name, "password") {
				continue // it would end the session
			}
			r := s.routeRequest(admin.Route{Method: method, Path: path})
			a.show(r)
			w := s.serve(r)
			scope := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/"), "/")[0]
			open := about["x-role"] == "anybody"
			enough := slices.Index(rank, a.role) >= slices.Index(rank, about["x-role"].(string))
			in := len(a.scopes) == 0 || scope == "session" || slices.Contains(a.scopes, scope)
			want := 0
			switch {
			case open:
			case a.role == "anybody":
				want = 401
			case !enough || !in:
				want = 403
			}
			if got := w.Code; (got == 401 || got == 403) != (want != 0) || want != 0 && got != want {
				t.Errorf("%s: %s: %d, want %d: %.200s", a.name, operation, got, want, w.Body)
			}
			checked++
		}
	}
	if checked < 30*len(all) {
		t.Errorf("only %d checks", checked)
	}
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
	s.refused("PUT", "/v1/users/bob", object("role", "admin", "version", 1), 409, admin.Conflict, "changed since")
	s.refused("DELETE", "/v1/users/bob", object("version", 1), 409, admin.Conflict, "changed since")
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

func TestAPITokens(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.addUser("ann", "operator")
	s.addUser("bob", "viewer")
	ann, bob := s.loginAs("ann"), s.loginAs("bob")
	token := s.token(ann, "laptop", "operator", "scopes", []string{"keys", "tokens"})
	if !strings.HasPrefix(token.Secret, "pen_") || len(token.Secret) < 50 || token.User != "ann" || token.Expires == nil || token.Used != nil || strings.Contains(token.Secret, token.ID) {
		t.Errorf("%+v", token)
	}
	for name, test := range map[string]struct {
		show func(*http.Request)
		body string
		want string // "" for success
	}{
		"more than one's role":      {with(bob), object("name", "x", "role", "operator", "days", 1), "your own role"},
		"no expiry":                 {with(bob), object("name", "x", "role", "viewer"), "days"},
		"a negative expiry":         {with(bob), object("name", "x", "role", "viewer", "days", -1), "0 to 3650"},
		"a long expiry":             {with(bob), object("name", "x", "role", "viewer", "days", 3651), "0 to 3650"},
		"an unknown scope":          {with(bob), object("name", "x", "role", "viewer", "days", 1, "scopes", []string{"everything"}), "everything"},
		"a service":                 {with(bob), object("name", "x", "role", "viewer", "days", 1, "service", true), "only admins"},
		"a name that is taken":      {with(ann), object("name", "laptop", "role", "viewer", "days", 1), "already"},
		"of a viewer without user":  {bearer(viewerToken), object("name", "x", "role", "viewer", "days", 1), "only admins"},
		"by a token, other scopes":  {bearer(token.Secret), object("name", "x", "role", "viewer", "days", 1, "scopes", []string{"rules"}), "your own token"},
		"by a token, all scopes":    {bearer(token.Secret), object("name", "x", "role", "viewer", "days", 1), "your own token"},
		"by a token, for longer":    {bearer(token.Secret), object("name", "x", "role", "viewer", "days", 31, "scopes", []string{"keys"}), "longer"},
		"by a token, without end":   {bearer(token.Secret), object("name", "x", "role", "viewer", "days", 0, "scopes", []string{"keys"}), "longer"},
		"by a token, within bounds": {bearer(token.Secret), object("name", "less", "role", "viewer", "days", 1, "scopes", []string{"keys"}), ""},
	} {
		r := s.request("POST", "/v1/tokens", test.body)
		test.show(r)
		if w := s.serve(r); (w.Code == 200) != (test.want == "") || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}

	// Everybody sees and revokes their own; admins all.
	list := func(show func(*http.Request)) (names []string) {
		r := s.request("GET", "/v1/tokens", "")
		show(r)
		var found admin.Tokens
		if err := json.Unmarshal(s.serve(r).Body.Bytes(), &found); err != nil {
			t.Fatal(err)
		}
		for _, t := range found.Tokens {
			names = append(names, t.User+"/"+t.Name)
		}
		return names
	}
	for want, show := range map[string]func(*http.Request){"[ann/laptop ann/less]": with(ann), "[]": with(bob)} {
		if got := fmt.Sprint(list(show)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := list(bearer(operatorToken)); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if w := s.with(bob, "DELETE", "/v1/tokens/"+token.ID, ""); w.Code != 404 {
		t.Errorf("bob revokes the token of ann: %d %s", w.Code, w.Body)
	}
	weak := s.token(ann, "weak", "viewer")
	if w := s.askAs(weak.Secret, "DELETE", "/v1/tokens/"+token.ID, ""); w.Code != 403 {
		t.Errorf("a viewer's token revokes an operator's: %d %s", w.Code, w.Body)
	}
	if w := s.askAs(weak.Secret, "DELETE", "/v1/tokens/"+weak.ID, ""); w.Code != 200 {
		t.Errorf("a token revokes itself: %d %s", w.Code, w.Body)
	}

	// The last use is recorded, to the minute.
	s.askAs(token.Secret, "GET", "/v1/keys?rule=per-user", "")
	used := func() *time.Time {
		for _, one := range get[admin.Tokens](s, "GET", "/v1/tokens", "").Tokens {
			if one.ID == token.ID {
				return one.Used
			}
		}
		return nil
	}
	eventually(t, "the use is recorded", func() bool { return used() != nil })
	before := *used()
	s.clock.pass(2 * time.Minute)
	s.askAs(token.Secret, "GET", "/v1/keys?rule=per-user", "")
	eventually(t, "the next use is recorded", func() bool { return used().After(before) })

	// An expired token, and its session, are of no use.
	cookie := s.login(token.Secret)
	session := func() int { code, _ := s.whoAmI(with(cookie)); return code }
	s.clock.pass(token.Expires.Sub(s.clock.Now()) - time.Second)
	if code, _ := s.whoAmI(bearer(token.Secret)); code != 200 {
		t.Errorf("a second before it expires: %d", code)
	}
	cookie = s.login(token.Secret)
	if session() != 200 {
		t.Error("no session with a token that is about to expire")
	}
	s.clock.pass(time.Second)
	if code, _ := s.whoAmI(bearer(token.Secret)); code != 401 || session() != 401 {
		t.Errorf("when it expires: %d, its session %d", code, session())
	}
}

// Wrong passwords are limited by network and by user, whether the user exists or not, and the responses are the same.
// Nothing that is limited is hashed.
func TestPasswordsAreLimited(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.addUser("ann", "viewer")
	s.addUser("bob", "viewer")
	try := func(from, name, given string) *httptest.ResponseRecorder {
		r := s.loginRequest(name, given)
		r.RemoteAddr = from
		return s.serve(r)
	}
	var texts []string
	for _, name := range []string{"ann", "nobody", "Not A Name", strings.Repeat("x", 100000)} {
		w := try("192.0.2.1:1", name, "wrong password")
		if w.Code != 401 {
			t.Errorf("%.20s: %d %s", name, w.Code, w.Body)
		}
		texts = append(texts, w.Body.String())
	}
	if len(slices.Compact(texts)) != 1 {
		t.Errorf("%q", texts)
	}
	for i := range 6 {
		if w := try("192.0.2.1:1", "ann", "wrong password"); w.Code != 401 {
			t.Errorf("attempt %d: %d", i, w.Code)
		}
	}
	if w := try("192.0.2.1:1", "bob", password); w.Code != 429 || w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close" {
		t.Errorf("a network that guesses: %d %v", w.Code, w.Header())
	}
	if w := try("192.0.2.2:1", "ann", password); w.Code != 200 {
		t.Errorf("another network: %d %s", w.Code, w.Body)
	}
	for i := range 24 { // from many networks, after 7 from one
		try(fmt.Sprintf("198.51.100.%d:1", i), "ann", "wrong password")
	}
	if w := try("203.0.113.1:1", "ann", password); w.Code != 429 || !strings.Contains(w.Body.String(), "this user") {
		t.Errorf("a user who is guessed: %d %s", w.Code, w.Body)
	}
	if w := try("203.0.113.1:1", "bob", password); w.Code != 200 {
		t.Errorf("another user: %d %s", w.Code, w.Body)
	}
	if w := s.ask("GET", "/v1/session", ""); w.Code != 200 {
		t.Errorf("admin.token: %d", w.Code)
	}
	s.clock.pass(15*time.Minute + time.Second)
	if w := try("203.0.113.1:1", "ann", password); w.Code != 200 {
		t.Errorf("later: %d %s", w.Code, w.Body)
	}
	if got := s.door.RefusedLogins(); got["wrong_password"] == 0 || got["too_many_attempts"] == 0 {
		t.Errorf("%v", got)
	}
}

// However many log in at once, few passwords are hashed at a time, and no more attempts fail than the limit allows,
// plus those that are being hashed.
func TestManyLoginsAtOnce(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.addUser("ann", "viewer")
	var requests []*http.Request
	for range 100 {
		r := s.loginRequest("ann", "wrong password")
		r.RemoteAddr = "192.0.2.1:1"
		requests = append(requests, r)
	}
	var mu sync.Mutex
	codes := map[int]int{}
	var all sync.WaitGroup
	for _, r := range requests {
		all.Go(func() {
			w := httptest.NewRecorder()
			s.door.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			codes[w.Code]++
		})
	}
	all.Wait()
	if codes[401] == 0 || codes[401] > 10 || codes[401]+codes[429]+codes[503] != 100 {
		t.Errorf("%v", codes)
	}
}

// A user cannot end the sessions of others by logging in often, and a login never takes over a given session.
func TestSessionsOfUsers(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.addUser("ann", "viewer")
	s.addUser("bob", "viewer")
	bob := s.loginAs("bob")
	planted := &http.Cookie{Name: "penstock_session", Value: "planted-by-an-attacker"}
	r := s.loginRequest("ann", password)
	r.AddCookie(planted)
	first := s.serve(r).Result().Cookies()[0]
	if code, _ := s.whoAmI(with(planted)); code != 401 || first.Value == planted.Value {
		t.Errorf("a planted session: %d", code)
	}
	token := s.token(first, "laptop", "viewer")
	eldest, last := s.login(token.Secret), first
	for range 20 {
		s.clock.pass(time.Second)
		last = s.login(token.Secret)
	}
	for cookie, want := range map[*http.Cookie]int{eldest: 401, last: 200, first: 200, bob: 200} {
		if code, _ := s.whoAmI(with(cookie)); code != want {
			t.Errorf("%d, want %d", code, want)
		}
	}
	r = s.loginRequest("ann", password)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := s.serve(r); w.Code != 403 || len(w.Result().Cookies()) != 0 {
		t.Errorf("a login by a page of another site: %d", w.Code)
	}
	r = s.loginRequest("ann", password)
	r.Header.Set("Content-Type", "text/plain") // which a form can send
	if w := s.serve(r); w.Code != 415 {
		t.Errorf("a login by a form: %d", w.Code)
	}
	w := s.serve(s.request("POST", "/v1/session", object("user", "ann", "password", password, "token", operatorToken)))
	if w.Code != 400 {
		t.Errorf("a password and a token: %d", w.Code)
	}
}

// A demoted or removed user sees the end of a stream.
func TestStreamsEndWithTheRole(t *testing.T) {
	s := newTestAdmin(t, setup{})
	s.door.Beat(20 * time.Millisecond)
	s.addUser("ann", "operator")
	session := s.loginAs("ann")
	token := s.token(session, "tail", "operator")
	server := httptest.NewServer(s.door)
	defer server.Close()
	for _, show := range []func(*http.Request){with(session), bearer(token.Secret)} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		show(r)
		answer, err := server.Client().Do(r)
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(answer, err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			buffer := make([]byte, 1024)
			for {
				if _, err := answer.Body.Read(buffer); err != nil {
					return
				}
			}
		}()
		get[admin.NewPassword](s, "PUT", "/v1/users/ann", object("role", "viewer"))
		select {
		case <-ended:
		case <-time.After(patient):
			t.Error("the stream goes on")
		}
		answer.Body.Close()
		get[admin.NewPassword](s, "PUT", "/v1/users/ann", object("role", "operator"))
	}
}

// While the database is gone, admin.token and those who are known go on, for an hour; changes fail. When it is back,
// what was changed elsewhere holds.
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
