package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/storage"
)

func search(s *testAdmin, user string) bool { return s.call("user", user, "path", "/search") }

func about(pairs ...any) string { return object(pairs...) }

var u1 = map[string]string{"user": "u1"}

// An operator finds a client, sees its counters, resets them, bans the client and lifts the ban.
func TestLookAfterACaller(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store admin.Store) {
		s := newTestAdmin(t, setup{store: store, local: newMemory(t)})
		for i := range 4 {
			if search(s, "u1") != (i < 3) {
				t.Fatalf("call %d", i)
			}
		}
		show := func() admin.KeyState {
			t.Helper()
			found := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", u1))
			if len(found.Keys) != 1 {
				t.Fatalf("%+v", found)
			}
			return found.Keys[0]
		}
		k := show()
		if l := k.Limits[0]; k.Rule != "per-user" || l.Used != 3 || l.Limit != 3 || l.Remaining != 0 || l.Allowed != true || k.Strikes != 1 || !k.CanBan || k.BannedUntil != nil || k.Key["user"] != "u1" {
			t.Errorf("%+v", k)
		}
		done := get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", u1))
		if len(done.Keys) != 1 || done.Keys[0].Rule != "per-user" {
			t.Errorf("%+v", done)
		}
		if k := show(); k.Limits[0].Used != 0 || k.Strikes != 0 {
			t.Errorf("after a reset: %+v", k)
		}
		if !search(s, "u1") {
			t.Error("denied after a reset")
		}

		done = get[admin.ChangeResult](s, "POST", "/v1/bans", about("rule", "per-user", "attributes", u1, "duration", "1h"))
		if len(done.Keys) != 1 || done.Keys[0].BannedUntil == nil {
			t.Errorf("%+v", done)
		}
		if search(s, "u1") || !search(s, "u2") {
			t.Error("the wrong one is banned")
		}
		if k := show(); k.BannedUntil == nil || !k.BannedUntil.Equal(*done.Keys[0].BannedUntil) {
			t.Errorf("banned: %+v", k)
		}
		if done := get[admin.ChangeResult](s, "DELETE", "/v1/bans", about("attributes", u1)); done.Keys[0].BannedUntil != nil {
			t.Errorf("%+v", done)
		}
		if !search(s, "u1") {
			t.Error("denied after the ban was lifted")
		}
		var deeds []string
		for _, e := range get[admin.AuditPage](s, "GET", "/v1/audit", "").Events {
			if e.Action != "reveal" { // which is recorded asynchronously
				deeds = append(deeds, e.Action+" "+string(e.Detail))
			}
		}
		if want := []string{`lift rule per-user user="u1"`, `ban for 1h rule per-user user="u1"`, `reset rule per-user user="u1"`, "save first"}; !slices.Equal(deeds, want) {
			t.Errorf("%q", deeds)
		}
	})
}

// The local fallback store gets bans and resets too.
func TestLocalStoreHears(t *testing.T) {
	t.Parallel()
	local := newMemory(t)
	s := newTestAdmin(t, setup{store: newMemory(t), local: local})
	key := penstock.Attribute{Name: "user", Value: "u1"}
	rule := s.live.Load().Rules[0]
	who := rule.Subjects.Subject(key.Value)
	banned := func() bool {
		t.Helper()
		seen, err := storage.Inspect(t.Context(), local, 0, []storage.Group{{Subject: who, Penalty: rule.Penalty, Charges: []algorithm.Charge{{Meter: rule.Limits[0]}}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return seen[0].Group.BannedUntil != 0
	}
	get[admin.ChangeResult](s, "POST", "/v1/bans", about("attributes", u1, "duration", "1h"))
	if !banned() {
		t.Error("the local store does not know of the ban")
	}
	get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", u1))
	if banned() {
		t.Error("the local store does not know of the reset")
	}
	get[admin.ChangeResult](s, "POST", "/v1/bans", about("attributes", u1, "duration", "1h"))
	get[admin.ChangeResult](s, "DELETE", "/v1/bans", about("attributes", u1))
	if banned() {
		t.Error("the local store does not know that the ban was lifted")
	}
}

func TestListKeys(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store admin.Store) {
		s := newTestAdmin(t, setup{store: store})
		want := map[string]bool{}
		for i := range 30 {
			user := fmt.Sprint("user-", i)
			search(s, user)
			want[user] = true
		}
		rule := s.live.Load().Rules[0]
		foreign := rule.Subjects.Subject("silent") // no request of it was kept
		ticket := storage.Ticket{Groups: []storage.Group{{Subject: foreign, Charges: []algorithm.Charge{{Meter: rule.Limits[0], Cost: 1}}}}}
		if err := store.Take(t.Context(), &ticket, new(storage.Outcome)); err != nil {
			t.Fatal(err)
		}
		unknown := map[string]bool{}
		for cursor := ""; ; {
			page := get[admin.Keys](s, "GET", "/v1/keys?rule=per-user&cursor="+cursor, "")
			for _, k := range page.Keys {
				if user, ok := k.Key["user"]; ok {
					delete(want, user)
				} else {
					unknown[k.Subject] = true
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(want) != 0 || len(unknown) != 1 {
			t.Errorf("not listed: %v; not known: %v", want, unknown)
		}
		for subject := range unknown {
			if !strings.HasPrefix(foreign.String(), strings.TrimSuffix(subject, "…")) {
				t.Errorf("%s is not %s", subject, foreign)
			}
		}
	})
}

func TestShowReservationsAndCalls(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: `
attributes: {user: {header: X-User}}
rules: [{name: tokens, key: [user], reserve: {ttl: 1h}, limits: [{rate: 100/1h, algorithm: token_bucket}]}]
`})
	c := penstock.Call{Cost: 7, Reserve: true, TTL: time.Hour, Attributes: []penstock.Attribute{{Name: "user", Value: "u1"}}}
	var v penstock.Verdict
	if err := s.engine.Decide(t.Context(), &c, &v); err != nil {
		t.Fatal(err)
	}
	s.call("user", "u2")
	found := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", u1, "rule", "tokens"))
	if k := found.Keys[0]; k.Reserved != 1 || len(k.Reservations) != 1 || k.Reservations[0].Cost != 7 || k.Reservations[0].Closed || k.Limits[0].Used != 7 {
		t.Errorf("%+v", k)
	}
	if len(found.Recent) != 1 || found.Recent[0].Attributes["user"] != "u1" || found.Recent[0].Cost != 7 {
		t.Errorf("%+v", found.Recent)
	}
}

// With overrides, the limits are those that apply to the client; a reset deletes the counters of all overrides.
func TestOverridesOfACaller(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: `
attributes: {user: {header: X-User}, plan: {header: X-Plan}}
rules:
  - name: per-user
    key: [user]
    limits: [{rate: 3/1h, algorithm: sliding_window_log}]
    overrides:
      - {match: {plan: gold}, limits: [{rate: 30/1h, algorithm: token_bucket}]}
      - {match: {plan: free}, limits: unlimited}
`})
	s.call("user", "u1")
	s.call("user", "u1", "plan", "gold")
	used := func(plan string) (int64, admin.KeyState) {
		t.Helper()
		k := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", map[string]string{"user": "u1", "plan": plan})).Keys[0]
		return k.Limits[0].Used, k
	}
	if n, k := used("gold"); n != 1 || k.Limits[0].Limit != 30 || *k.Override != 0 {
		t.Errorf("%+v", k)
	}
	if n, k := used("silver"); n != 1 || k.Limits[0].Limit != 3 || k.Override != nil {
		t.Errorf("%+v", k)
	}
	if n, k := used("free"); n != 1 || !k.Unlimited || *k.Override != 1 {
		t.Errorf("%+v", k)
	}
	get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", u1))
	for _, plan := range []string{"gold", "silver"} {
		if n, k := used(plan); n != 0 {
			t.Errorf("after a reset: %+v", k)
		}
	}
}

// Overrides with their own counters are shown if they have counted something, and a reset deletes them all, however
// many there are.
func TestCountersOfOverrides(t *testing.T) {
	t.Parallel()
	const many = storage.MaxGroups + 6
	var overrides []string
	for i := range many {
		overrides = append(overrides, fmt.Sprintf("{match: {plan: p%d}, limits: [{rate: 2/1h, algorithm: fixed_window}]}", i))
	}
	document := `
attributes: {user: {header: X-User}, plan: {header: X-Plan}}
rules:
  - name: per-user
    key: [user]
    limits: [{rate: 1/1h, algorithm: fixed_window}]
    overrides: [` + strings.Join(overrides, ", ") + `]
`
	onBothStores(t, func(t *testing.T, store admin.Store) {
		s := newTestAdmin(t, setup{store: store, local: newMemory(t), rules: document})
		last := fmt.Sprint("p", many-1)
		spend := func() {
			t.Helper()
			for i, plan := range []string{"none", "p0", "p0", last} {
				if !s.call("user", "u1", "plan", plan) {
					t.Fatalf("call %d, of plan %s, is denied", i, plan)
				}
			}
			if s.call("user", "u1", "plan", "none") || s.call("user", "u1", "plan", "p0") {
				t.Fatal("more passes than the limit")
			}
		}
		show := func(pairs ...string) string {
			t.Helper()
			attributes := map[string]string{"user": "u1"}
			for i := 0; i < len(pairs); i += 2 {
				attributes[pairs[i]] = pairs[i+1]
			}
			k := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", attributes)).Keys[0]
			text := fmt.Sprintf("%d/%d", k.Limits[0].Used, k.Limits[0].Limit)
			for _, c := range k.Others {
				of := "rule"
				if c.Override != nil {
					of = fmt.Sprint(*c.Override)
				}
				text += fmt.Sprintf(", %s %d/%d", of, c.Limits[0].Used, c.Limits[0].Limit)
			}
			return text
		}
		spend()
		for _, test := range [][2]string{
			{"none", fmt.Sprintf("1/1, 0 2/2, %d 1/2", many-1)},
			{"p0", fmt.Sprintf("2/2, rule 1/1, %d 1/2", many-1)},
			{"p1", fmt.Sprintf("0/2, rule 1/1, 0 2/2, %d 1/2", many-1)},
		} {
			if got := show("plan", test[0]); got != test[1] {
				t.Errorf("plan %s: %s, want %s", test[0], got, test[1])
			}
		}
		get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", u1))
		if got := show(); got != "0/1" {
			t.Errorf("after a reset: %s", got)
		}
		spend()
	})
}

func TestCallersThatAreNotKnown(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	for _, path := range []string{"/v1/keys/show", "/v1/keys/reset"} {
		s.refused("POST", path, object(), 400, admin.Invalid, `"at":"attributes"`)
		s.refused("POST", path, about("attributes", map[string]string{"colour": "red"}), 404, admin.NotFound)
		s.refused("POST", path, about("rule", "per-user", "attributes", map[string]string{"ip": "192.0.2.1"}), 404, admin.NotFound, "the key of rule per-user needs [user]")
		s.refused("POST", path, about("rule", "nonsense", "attributes", u1), 404, admin.NotFound, "there is no rule")
		s.refused("POST", path, about("domain", "other", "attributes", u1), 404, admin.NotFound)
	}
	s.refused("POST", "/v1/bans", about("attributes", u1, "duration", "soon"), 400, admin.Invalid, `"at":"duration"`)
	s.refused("POST", "/v1/bans", about("duration", "0s"), 400, admin.Invalid, `"at":"duration"`, `"at":"attributes"`)
	s.refused("POST", "/v1/bans", about("attributes", map[string]string{"ip": "192.0.2.1"}, "duration", "1h"), 409, admin.Conflict, "add a penalty to a rule")
	s.refused("DELETE", "/v1/bans", about("rule", "per-ip", "attributes", map[string]string{"ip": "192.0.2.1"}), 409, admin.Conflict)
	s.refused("GET", "/v1/keys", "", 400, admin.Invalid, `"at":"rule"`)
	s.refused("GET", "/v1/keys?rule=nonsense", "", 404, admin.NotFound)
	s.refused("GET", "/v1/keys?rule=per-user&cursor=nonsense", "", 400, admin.Invalid)

	// A counter that all clients share is found only by the rule's name.
	if found := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("rule", "tried")); len(found.Keys) != 1 {
		t.Errorf("%+v", found)
	}
}

// Changes to a key are recorded, however long the key is and whatever it contains.
func TestAuditOfAHostileKey(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: `rules: [{name: r, key: [a, b, c, d, e, f, g, h], limits: [1/1m]}]`})
	hostile := map[string]string{}
	for _, name := range strings.Split("abcdefgh", "") {
		hostile[name] = strings.Repeat("\x00\u202e", 1000)
	}
	get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", hostile))
	e := get[admin.AuditPage](s, "GET", "/v1/audit?limit=1", "").Events[0]
	if e.Action != "reset" || !strings.HasPrefix(string(e.Detail), `rule r a="\x00\u202e\x00`) || len(e.Detail) > 4000 {
		t.Errorf("%+v", e)
	}
}

// Without a database the audit is in the server log.
func TestAuditInTheLog(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{kind: admin.Files})
	get[admin.ChangeResult](s, "POST", "/v1/keys/reset", about("attributes", map[string]string{"user": "evil\n\x1b[31m"}))
	if log := s.log.String(); !strings.Contains(log, `"msg":"audit"`) || !strings.Contains(log, `"action":"reset"`) || !strings.Contains(log, `user=\"evil\\n\\x1b[31m\"`) {
		t.Errorf("%s", log)
	}
}

// A calendar limit is shown with the length of its period.
func TestCalendarWindow(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: 2/day, algorithm: fixed_window, timezone: UTC}]}]
`})
	s.call("user", "u1")
	const day = 24 * 60 * 60 * 1000
	if got := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", u1)).Keys[0].Limits[0].Window; got != day {
		t.Errorf("key: window of %d ms, want %d", got, day)
	}
	if w := s.ask("GET", "/v1/rules", ""); !strings.Contains(w.Body.String(), `"window_ms":86400000`) {
		t.Errorf("rule: %s", w.Body)
	}
}
