package admin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

// What an operator writes is in the history, for viewers without the names of clients, until it is deleted.
func TestAnnotate(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{history: true})
	before := s.clock.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	now := get[admin.Annotation](s, "POST", "/v1/annotations", object("text", ` blocked user="mallory", ticket 123 `))
	then := get[admin.Annotation](s, "POST", "/v1/annotations", object("text", "limit raised", "rule", "per-user", "at", before.Format(time.RFC3339)))
	if now.Text != `blocked user="mallory", ticket 123` || !strings.HasPrefix(now.Author, "admin.token ") || !now.At.Equal(s.clock.Now().Truncate(time.Millisecond)) || !then.At.Equal(before) || then.Rule != "per-user" {
		t.Errorf("%+v, %+v", now, then)
	}
	marks := func(query string) (texts string) {
		t.Helper()
		for _, m := range get[admin.History](s, "GET", "/v1/history?last=2h"+query, "").Marks {
			if m.Kind == "annotation" && m.Author != "" && m.ID != "" {
				texts += "|" + string(m.Text)
			}
		}
		return texts
	}
	if all, other := marks(""), marks("&rule=per-ip"); all != "|limit raised|"+string(now.Text) || other != "|"+string(now.Text) {
		t.Errorf("the history has %q, that of another rule %q", all, other)
	}
	w := s.askAs(viewerToken, "GET", "/v1/history?last=2h", "")
	if body := w.Body.String(); strings.Contains(body, "mallory") || !strings.Contains(body, "ticket 123") {
		t.Errorf("a viewer sees %s", body)
	}
	list := get[admin.Annotations](s, "GET", "/v1/annotations?last=30m", "").Annotations
	if len(list) != 1 || list[0] != now {
		t.Errorf("listed: %+v", list)
	}
	if list = get[admin.Annotations](s, "GET", "/v1/annotations", "").Annotations; len(list) != 2 || list[0] != now || list[1] != then {
		t.Errorf("listed: %+v", list)
	}
	if got := get[admin.DeletedAnnotation](s, "DELETE", "/v1/annotations/"+now.ID, ""); got.ID != now.ID || marks("") != "|limit raised" {
		t.Errorf("after deleting %+v: %s", got, marks(""))
	}
	s.refused("DELETE", "/v1/annotations/"+now.ID, "", http.StatusNotFound, admin.NotFound, now.ID)
	log := slices.DeleteFunc(get[admin.AuditPage](s, "GET", "/v1/audit", "").Events, func(e admin.AuditEntry) bool { return e.Action == "reveal" })
	if log[0].Action != "delete-annotation" || log[1].Action != "annotate" || string(log[1].Detail) != then.ID+": limit raised" {
		t.Errorf("the audit has %+v", log)
	}
}

func TestAnnotateRefuses(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{history: true})
	for body, mentions := range map[string]string{
		object("text", " "):                                   "from 1 to 500",
		object("text", strings.Repeat("x", 501)):              "has 501 bytes",
		object("text", "x", "rule", strings.Repeat("x", 300)): "at most 256",
		object("text", "x", "at", "yesterday"):                "must be within the last 2d",
		object("text", "x", "at", "2001-01-31T03:00:00Z"):     "must be within the last 2d",
		object("text", "x", "at", "2101-01-31T03:00:00Z"):     "must be within the last 2d",
		object("text", "x", "colour", "red"):                  "colour",
	} {
		s.refused("POST", "/v1/annotations", body, http.StatusBadRequest, admin.Invalid, mentions)
	}
	if w := s.askAs(viewerToken, "POST", "/v1/annotations", object("text", "x")); w.Code != http.StatusForbidden {
		t.Errorf("a viewer annotates: %d", w.Code)
	}
	s = newTestAdmin(t, setup{})
	s.refused("POST", "/v1/annotations", object("text", "x"), 503, admin.Unavailable, "no history")
	s.refused("GET", "/v1/annotations", "", 503, admin.Unavailable, "no history")
	s.refused("DELETE", "/v1/annotations/A", "", 503, admin.Unavailable, "no history")
}
