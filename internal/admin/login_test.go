package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

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
