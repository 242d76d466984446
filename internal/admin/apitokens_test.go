package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

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
