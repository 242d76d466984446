package admin_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

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

// A demoted or removed user sees the end of a stream.
func TestStreamsEndWithTheRole(t *testing.T) {
	t.Parallel()
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
			t.Error("the stream continues")
		}
		answer.Body.Close()
		get[admin.NewPassword](s, "PUT", "/v1/users/ann", object("role", "operator"))
	}
}
