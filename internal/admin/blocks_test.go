package admin_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
)

// An operator blocks a key without a penalty, sees it everywhere, and lifts it.
func TestBlockAndLift(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	s.call("user", "u1", "path", "/search", "ip", "198.51.100.7")
	s.call("user", "u2", "path", "/search", "ip", "198.51.100.8")
	body := object("attributes", map[string]string{"ip": "198.51.100.7"}, "duration", "1h", "reason", "scraper", "preview", true)
	if b := get[admin.Blocked](s, "POST", "/v1/blocks", body); b.Recent != (admin.Recent{Calls: 2, Denied: 1, Allowed: 1}) || b.ID != "" || len(b.Warnings) != 0 {
		t.Errorf("the preview says %+v", b)
	}
	if !s.call("user", "u1", "ip", "198.51.100.7") {
		t.Error("a preview blocks")
	}
	body = strings.Replace(body, `"preview":true`, `"preview":false`, 1)
	b := get[admin.Blocked](s, "POST", "/v1/blocks", body)
	if b.Key["ip"] != "198.51.100.7" || b.Reason != "scraper" || !strings.HasPrefix(b.Author, "admin.token ") || b.Until.Sub(b.From).Hours() != 1 || len(b.Unshared) > 0 {
		t.Errorf("%+v", b)
	}
	if s.call("user", "u1", "path", "/search", "ip", "198.51.100.7") {
		t.Error("a blocked client passes")
	}
	if !s.call("user", "u1", "path", "/search", "ip", "198.51.100.9") {
		t.Error("another client does not pass")
	}
	all := get[admin.Blocks](s, "GET", "/v1/blocks", "")
	if len(all.Blocks) != 1 || all.Blocks[0].ID != b.ID || all.Most != 1000 {
		t.Errorf("listed: %+v", all)
	}
	about := object("attributes", map[string]string{"ip": "198.51.100.7"})
	shown := get[admin.KeyStates](s, "POST", "/v1/keys/show", about)
	if shown.Block == nil || shown.Block.ID != b.ID || shown.Recent[0].Reason.String() != "blocked" {
		t.Errorf("shown: %+v", shown)
	}
	if e := get[admin.Explanation](s, "POST", "/v1/explain", about); e.Block == nil || e.Block.ID != b.ID || e.Block.Reason != "scraper" || !e.Block.Until.Equal(b.Until) {
		t.Errorf("explained: %+v", e)
	}
	if w := s.askAs(viewerToken, "POST", "/v1/explain", about); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "block") {
		t.Errorf("a viewer learns who is blocked: %s", w.Body)
	}
	lifted := get[admin.Lifted](s, "DELETE", "/v1/blocks", about)
	if len(lifted.Blocks) != 1 || lifted.Blocks[0].ID != b.ID || !s.call("user", "u1", "ip", "198.51.100.7") {
		t.Errorf("lifted: %+v", lifted)
	}
	s.refused("DELETE", "/v1/blocks", about, http.StatusNotFound, admin.NotFound, "no such block")
	if e := get[admin.Explanation](s, "POST", "/v1/explain", about); e.Block != nil {
		t.Errorf("explained after the lift: %+v", e.Block)
	}
	log := get[admin.AuditPage](s, "GET", "/v1/audit", "")
	log.Events = slices.DeleteFunc(log.Events, func(d admin.AuditEntry) bool { return d.Action == "reveal" })
	for i, want := range []string{"lift-block", "block"} {
		if e := log.Events[i]; e.Action != want || !strings.HasPrefix(string(e.Detail), `ip="198.51.100.7"`) {
			t.Errorf("the audit has %+v", e)
		}
	}
}

// A block of an IPv6 address warns that the gateway knows only the network of a client.
func TestBlockOfAnIPv6Address(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{kind: admin.Files})
	for address, want := range map[string]string{"2001:db8:1:2::5": "block 2001:db8:1:2::/64", "2001:db8:1:3::/64": "", "198.51.100.7": ""} {
		b := get[admin.Blocked](s, "POST", "/v1/blocks", object("attributes", map[string]string{"ip": address}, "duration", "1h", "reason", "x"))
		if got := strings.Join(b.Warnings, ""); want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// A block of a key that no rule knows works, with a warning.
func TestBlockOfAnUnknownAttribute(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{kind: admin.Files})
	b := get[admin.Blocked](s, "POST", "/v1/blocks", object("attributes", map[string]string{"usr": "u1"}, "duration", "1h", "reason", "x"))
	if len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], `no rule reads the attribute "usr"`) || !strings.Contains(b.Warnings[0], "user") {
		t.Errorf("%+v", b)
	}
	if s.call("usr", "u1", "ip", "198.51.100.7") {
		t.Error("it is not blocked")
	}
	shown := get[admin.KeyStates](s, "POST", "/v1/keys/show", object("attributes", map[string]string{"usr": "u1"}))
	if shown.Block == nil || len(shown.Keys) != 0 || len(shown.Recent) != 1 {
		t.Errorf("shown: %+v", shown)
	}
	if lifted := get[admin.Lifted](s, "DELETE", "/v1/blocks", object("id", b.ID)); len(lifted.Blocks) != 1 {
		t.Errorf("%+v", lifted)
	}
}

func TestBlockRefusals(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{kind: admin.Files})
	ip := map[string]string{"ip": "198.51.100.7"}
	for mentions, body := range map[string]string{
		"must be one attribute":           object("attributes", map[string]string{"ip": "198.51.100.7", "user": "u1"}, "duration", "1h", "reason", "x"),
		"got 0":                           object("attributes", map[string]string{}, "duration", "1h", "reason", "x"),
		"attributes.ip":                   object("attributes", map[string]string{"ip": ""}, "duration", "1h", "reason", "x"),
		`\"1.2.3.999\" is not an address`: object("attributes", map[string]string{"ip": "1.2.3.999"}, "duration", "1h", "reason", "x"),
		`1.2.3.4/33\" is not an address`:  object("attributes", map[string]string{"ip": "1.2.3.4/33"}, "duration", "1h", "reason", "x"),
		"from 1s to 30d":                  object("attributes", ip, "duration", "31d", "reason", "x"),
		`invalid duration \"\"`:           object("attributes", ip, "reason", "x"),
		"the reason, for other operators": object("attributes", ip, "duration", "1h", "reason", "  "),
		"has 501 bytes":                   object("attributes", ip, "duration", "1h", "reason", strings.Repeat("x", 501)),
		"reason has control":              object("attributes", ip, "duration", "1h", "reason", "a\x00b"),
		"unknown field":                   object("attributes", ip, "length", "1h", "reason", "x"),
		"value has control character":     object("attributes", map[string]string{"user": "a\nb"}, "duration", "1h", "reason", "x"),
	} {
		s.refused("POST", "/v1/blocks", body, http.StatusBadRequest, admin.Invalid, mentions)
	}
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if w := s.askAs(viewerToken, method, "/v1/blocks", "{}"); w.Code != http.StatusForbidden {
			t.Errorf("%s: a viewer gets %d", method, w.Code)
		}
	}
	for i := range 1000 {
		get[admin.Blocked](s, "POST", "/v1/blocks", object("attributes", map[string]string{"user": fmt.Sprint(i)}, "duration", "1h", "reason", "x"))
	}
	s.refused("POST", "/v1/blocks", object("attributes", ip, "duration", "1h", "reason", "x"), http.StatusConflict, admin.Conflict, "1000 keys are blocked", "deny list")
}

// A bare value is found under every attribute that it is, with its bans and blocks.
func TestFindByValue(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store admin.Store) {
		s := newTestAdmin(t, setup{store: store})
		s.call("user", "u1", "path", "/search", "ip", "198.51.100.7")
		s.call("user", "u1", "path", "/search", "ip", "198.51.100.8")
		s.call("user", "198.51.100.7", "path", "/search")
		find := func(value string) []admin.Client {
			return get[admin.Clients](s, "POST", "/v1/keys/find", object("value", value)).Clients
		}
		if got := find(" u1\n"); len(got) != 1 || got[0].Attributes["user"] != "u1" || got[0].Recent != 2 || !got[0].Counted || got[0].Rules[0] != "per-user" || got[0].BannedUntil != nil {
			t.Errorf("u1: %+v", got)
		}
		if got := find("198.51.100.7"); len(got) != 2 || got[0].Attributes["ip"]+got[1].Attributes["ip"] != "198.51.100.7" || got[0].Attributes["user"]+got[1].Attributes["user"] != "198.51.100.7" {
			t.Errorf("an address that is also a user: %+v", got)
		}
		if got := find("nobody"); len(got) != 0 {
			t.Errorf("nobody: %+v", got)
		}
		get[admin.ChangeResult](s, "POST", "/v1/bans", object("attributes", map[string]string{"user": "new"}, "duration", "1h", "reason", "spam"))
		if got := find("new"); len(got) != 1 || got[0].BannedUntil == nil || got[0].Recent != 0 {
			t.Errorf("a banned client that sent nothing: %+v", got)
		}
		get[admin.Blocked](s, "POST", "/v1/blocks", object("attributes", map[string]string{"ip": "203.0.113.0/24"}, "duration", "1h", "reason", "x"))
		if got := find("203.0.113.9"); len(got) != 1 || got[0].Block == nil || got[0].Block.Key["ip"] != "203.0.113.0/24" {
			t.Errorf("an address in a blocked network: %+v", got)
		}
		s.refused("POST", "/v1/keys/find", object("value", " "), http.StatusBadRequest, admin.Invalid, "value")
	})
}

// Attributes are listed for suggestions, those that most rules use first.
func TestAttributes(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	found := get[admin.KnownAttributes](s, "GET", "/v1/attributes", "")
	var names []string
	for _, a := range found.Attributes {
		names = append(names, a.Name)
	}
	if strings.Join(names, " ") != "ip user host method path plan" {
		t.Errorf("%q", names)
	}
}

// Bans are listed with who imposed them and why; those of a penalty name nobody.
func TestBansNameTheirAuthors(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{store: newRedis(t), rules: strings.Replace(someRules, "after: 100", "after: 1", 1)})
	for range 5 {
		s.call("user", "u1", "path", "/search", "ip", "198.51.100.7")
	}
	s.call("user", "u2", "path", "/search", "ip", "198.51.100.7")
	get[admin.ChangeResult](s, "POST", "/v1/bans", object("attributes", map[string]string{"user": "u2"}, "duration", "1h", "reason", "spam: \"x\""))
	bans := map[string]admin.Ban{}
	for next := "start"; next != ""; {
		page := get[admin.Bans](s, "GET", "/v1/bans?cursor="+strings.TrimPrefix(next, "start"), "")
		for _, b := range page.Bans {
			bans[b.Key["user"]] = b
		}
		next = page.Next
	}
	if b := bans["u1"]; b.Author != "" || b.Reason != "" || b.Rule != "per-user" {
		t.Errorf("by the penalty: %+v", b)
	}
	if b := bans["u2"]; !strings.HasPrefix(b.Author, "admin.token ") || b.Reason != `spam: "x"` {
		t.Errorf("by an operator: %+v", b)
	}
}
