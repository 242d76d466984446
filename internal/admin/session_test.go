package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	lasts := func(c *http.Cookie) bool {
		t.Helper()
		r := s.request("GET", "/v1/session", "")
		r.AddCookie(c)
		return s.serve(r).Code == http.StatusOK
	}
	idle := s.login(viewerToken)
	s.clock.pass(30*time.Minute - time.Second)
	if !lasts(idle) {
		t.Error("a session that is used is over")
	}
	s.clock.pass(30 * time.Minute)
	if lasts(idle) {
		t.Error("a session that is not used lasts")
	}

	busy, ended := s.login(viewerToken), 0
	for range 50 {
		s.clock.pass(29 * time.Minute)
		if !lasts(busy) {
			break
		}
		ended++
	}
	if ended != 24 { // 24 × 29 minutes are less than 12 hours
		t.Errorf("a session that is used every 29 minutes was good %d times", ended)
	}

	left := s.login(operatorToken)
	r := s.request("DELETE", "/v1/session", "")
	r.AddCookie(left)
	if w := s.serve(r); w.Code != http.StatusNoContent || w.Result().Cookies()[0].MaxAge != -1 {
		t.Errorf("logout: %d %v", w.Code, w.Result().Cookies())
	}
	if lasts(left) {
		t.Error("a session lasts after the logout")
	}
}

// A login sets a new cookie, and ends the previous session.
func TestLoginRotates(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	first := s.login(viewerToken)
	r := s.request("POST", "/v1/session", object("token", operatorToken))
	r.AddCookie(first)
	w := s.serve(r)
	second := w.Result().Cookies()[0]
	if second.Value == first.Value || !strings.Contains(w.Body.String(), `"role":"admin"`) {
		t.Errorf("%v %s", second, w.Body)
	}
	for cookie, want := range map[*http.Cookie]int{first: 401, second: 200} {
		r := s.request("GET", "/v1/session", "")
		r.AddCookie(cookie)
		if w := s.serve(r); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}

func TestManySessions(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	first := s.login(viewerToken)
	for range 999 {
		s.clock.pass(time.Millisecond)
		s.door.ServeHTTP(httptest.NewRecorder(), s.request("POST", "/v1/session", object("token", viewerToken)))
	}
	s.clock.pass(time.Millisecond)
	last := s.login(viewerToken)
	for cookie, want := range map[*http.Cookie]int{first: 401, last: 200} {
		r := s.request("GET", "/v1/session", "")
		r.AddCookie(cookie)
		if w := s.serve(r); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
}

func TestCookies(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	plain := s.login(operatorToken)
	if plain.Name != "penstock_session" || plain.Secure || !plain.HttpOnly || plain.SameSite != http.SameSiteStrictMode || plain.Path != "/" || plain.Domain != "" || len(plain.Value) < 43 {
		t.Errorf("%+v", plain)
	}
	secure := httptest.NewTLSServer(s.door)
	defer secure.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", secure.URL+"/v1/session", strings.NewReader(object("token", operatorToken)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := secure.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if c := answer.Cookies()[0]; c.Name != "__Host-penstock" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("%+v", c)
	}
}

// A client that logs in again and again with a token ends sessions of that token only.
func TestSessionsOfATokenEndEachOther(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	operator, viewer := s.login(operatorToken), s.login(viewerToken)
	for range 1100 {
		s.clock.pass(time.Millisecond)
		s.login(viewerToken)
	}
	for c, want := range map[*http.Cookie]int{operator: http.StatusOK, viewer: http.StatusUnauthorized} {
		r := s.request("GET", "/v1/session", "")
		r.AddCookie(c)
		if w := s.serve(r); w.Code != want {
			t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
		}
	}
}
