package rules

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/naive"
)

func compiled(t testing.TB, text string) *Snapshot {
	t.Helper()
	doc, err := Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := Compile(doc, Options{Provided: []string{"user", "plan", "device"}, Now: naive.Moment})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told formats a match as "rule[override](key,key) …".
func told(m *Match) string {
	if m.Denied {
		return "denied"
	}
	if m.Allowed {
		return "allowed"
	}
	var all []string
	for _, r := range m.Rules {
		s := r.Rule.Name
		if r.Override != NoOverride {
			s += "[" + string(rune('0'+r.Override)) + "]"
		}
		all = append(all, s+"("+strings.Join(r.Key, ",")+")")
	}
	return strings.Join(all, " ")
}

const matchRules = `
rules:
  - {name: everybody, key: [], limits: [100/1m]}
  - {name: per-user, key: [user], limits: [100/1m], overrides: [
      {match: {plan: gold}, limits: [1000/1m], expires_at: 2026-02-01T00:00:00Z},
      {match: {user: alice}, limits: unlimited},
      {match: {plan: "*"}, limits: [5/1m]}]}
  - {name: per-device, key: [user, "device?"], limits: [10/1m], match: {path: "/search/{rest...}"}}
  - {name: one-item, key: [path], limits: [10/1m], match: {method: [GET, HEAD], path: "/search/{id}"}}
  - {name: incident, key: [ip], limits: [1/1m], match: {ip: [10.0.0.0/8, 10.1.0.0/16, 10.1.2.3]}, expires_at: 2026-01-02T00:00:00Z}
  - {name: asleep, key: [], limits: [1/1m], mode: "off"}
  - {name: watching, key: [], limits: [1/1m], mode: shadow, match: {when: 'user.startsWith("m")'}}
  - {name: elsewhere, key: [], limits: [1/1m], match: {domain: mail}}
  - {name: fragile, key: [], limits: [1/1m], match: {when: int(plan) > 3, on_error: skip}}
lists:
  allow: [{ip: 192.0.2.0/24}, {user: mallory}]
  deny: [{user: mal*}, {ip: 192.0.2.66}]
`

func TestMatch(t *testing.T) {
	s := compiled(t, matchRules)
	day := penstock.InstantOf(naive.Moment)
	var m Match
	for _, test := range []struct {
		call *penstock.Call
		now  penstock.Instant
		want string
	}{
		{callOf(""), day, "everybody()"},
		{callOf("default"), day, "everybody()"},
		{callOf("mail"), day, "elsewhere()"},
		{callOf("unknown"), day, ""},
		{callOf("", "user", "bob"), day, "everybody() per-user(bob)"},
		{callOf("", "user", ""), day, "everybody() per-user()"},
		{callOf("", "user", "bob", "plan", "free"), day, "everybody() per-user[2](bob)"},
		{callOf("", "user", "alice", "plan", "gold"), day, "everybody() per-user[0](alice)"},
		{callOf("", "user", "alice", "plan", "gold"), day.Add(40 * 24 * time.Hour), "everybody() per-user[1](alice)"},
		{callOf("", "user", "bob", "path", "/search/a/b"), day, "everybody() per-user(bob) per-device(bob,)"},
		{callOf("", "user", "bob", "device", "d", "path", "/search/"), day, "everybody() per-user(bob) per-device(bob,d)"},
		{callOf("", "device", "d", "path", "/search/a"), day, "everybody()"},
		{callOf("", "method", "GET", "path", "/x/..//search/%61"), day, "everybody() one-item(/search/a)"},
		{callOf("", "method", "get", "path", "/search/a"), day, "everybody()"},
		{callOf("", "ip", "10.1.2.3"), day, "everybody() incident(10.1.2.3)"}, // once, though by three networks
		{callOf("", "ip", "10.1.2.3"), day.Add(24*time.Hour - time.Microsecond), "everybody() incident(10.1.2.3)"},
		{callOf("", "ip", "10.1.2.3"), day.Add(24 * time.Hour), "everybody()"},
		{callOf("", "user", "mia"), day, "everybody() per-user(mia) watching()"},
		{callOf("", "plan", "4"), day, "everybody() fragile()"},
		{callOf("", "plan", "four"), day, "everybody()"},
		{callOf("", "ip", "192.0.2.1"), day, "allowed"},
		{callOf("mail", "ip", "192.0.2.1"), day, "allowed"}, // lists are for all domains
		{callOf("", "ip", "192.0.2.66"), day, "denied"},
		{callOf("", "user", "mallory"), day, "denied"},
		{callOf("", "user", "bob", "user", "alice"), day, "everybody() per-user(bob)"},
		{callOf("", "domain", "mail"), day, "everybody()"},
	} {
		s.Match(test.call, test.now, &m)
		if got := told(&m); got != test.want {
			t.Errorf("%+v at %v: %q, want %q", test.call, test.now.Time(), got, test.want)
		}
		checkExplainedAt(t, s, test.call, test.now, &m)
	}
}

func TestMatchIsReusedAcrossSnapshots(t *testing.T) {
	var m Match
	for range 2 {
		for text, want := range map[string]string{
			`rules: [{name: a, key: [user, device, plan], limits: [1/1m]}]`: "a(u,d,p)",
			`rules: [{name: b, key: [plan], limits: [1/1m]}]`:               "b(p)",
			`rules: []`: "",
		} {
			compiled(t, text).Match(callOf("", "user", "u", "device", "d", "plan", "p"), 1, &m)
			if got := told(&m); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
		}
	}
}

func TestSnapshotsAreShared(t *testing.T) {
	s := compiled(t, matchRules)
	var group sync.WaitGroup
	for _, user := range []string{"bob", "mia", "carol"} {
		group.Go(func() {
			var m Match
			want := "everybody() per-user(" + user + ")"
			if user == "mia" {
				want += " watching()"
			}
			for range 200 {
				s.Match(callOf("", "user", user), 1, &m)
				if got := told(&m); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
	group.Wait()
}

func TestExplain(t *testing.T) {
	s := compiled(t, matchRules)
	call := callOf("", "method", "POST", "path", "/search/a/b", "user", "bob", "plan", "free", "ip", "10.9.9.9")
	for i, want := range []struct {
		reason Reason
		says   string
	}{
		{"", ""},
		{"", ""},
		{"", ""},
		{WrongMethod, `the method is "POST", not GET or HEAD`},
		{RuleExpired, "the rule expired at 2026-01-02T00:00:00Z"},
		{RuleOff, "the rule's mode is off"},
		{WhenFalse, `the expression user.startsWith("m") is false`},
		{WrongDomain, `the domain is "default", not "mail"`},
		{WhenFailed, `the expression int(plan) > 3 failed, so it does not hold: `},
	} {
		e := s.Explain(call, penstock.InstantOf(naive.Moment.Add(48*time.Hour)), nil)
		if got := e.Rules[i]; got.Reason != want.reason || !strings.HasPrefix(got.Why, want.says) || got.Matches != (want.reason == "") {
			t.Errorf("%s: %v %s %q; want %s %q", got.Rule.Name, got.Matches, got.Reason, got.Why, want.reason, want.says)
		}
	}
	e := s.Explain(call, penstock.InstantOf(naive.Moment), nil)
	user := e.Rules[1]
	if user.Override != 2 || len(user.Limits) != 1 || user.Limits[0].Limit().Count != 5 || user.Unlimited {
		t.Errorf("after overrides: %+v", user)
	}
	if !slices.Equal(user.Key, []penstock.Attribute{{Name: "user", Value: "bob"}}) {
		t.Errorf("key %+v", user.Key)
	}
	if device := e.Rules[2]; !slices.Equal(device.Key, []penstock.Attribute{{Name: "user", Value: "bob"}, {Name: "device"}}) || device.Override != NoOverride {
		t.Errorf("key %+v, override %d", device.Key, device.Override)
	}

	alice := s.Explain(callOf("", "user", "alice", "path", "/", "method", "GET"), 1, nil)
	if got := alice.Rules[1]; !got.Unlimited || got.Override != 1 || len(got.Limits) != 0 {
		t.Errorf("unlimited: %+v", got)
	}
	if got := alice.Rules[3]; got.Reason != WrongPath || got.Why != `the path is "/", which does not fit /search/{id}` {
		t.Errorf("path: %+v", got)
	}
	if got := alice.Rules[4]; got.Reason != WrongValue || got.Why != `ip is missing, not "10.0.0.0/8" or "10.1.0.0/16" or "10.1.2.3"` {
		t.Errorf("value: %+v", got)
	}
	if got := s.Explain(callOf(""), 1, nil).Rules[1]; got.Reason != KeyIncomplete || !strings.Contains(got.Why, "lacks user") || !strings.Contains(got.Why, "user?") {
		t.Errorf("key: %+v", got)
	}
	if e := s.Explain(callOf("", "ip", "192.0.2.66"), 1, nil); !e.Denied || e.Allowed || e.Entry != 1 || !e.Rules[0].Matches {
		t.Errorf("denied: %+v", e)
	}
	if e := s.Explain(callOf("", "ip", "192.0.2.1"), 1, nil); e.Denied || !e.Allowed || e.Entry != 0 {
		t.Errorf("allowed: %+v", e)
	}
}

func TestExplainTellsOfOverridesThatFail(t *testing.T) {
	s := compiled(t, `rules: [{name: a, key: [], limits: [1/1m], overrides: [{match: {when: int(plan) > 3}, limits: unlimited}]}]`)
	got := s.Explain(callOf("", "plan", "x"), 1, nil).Rules[0]
	if !got.Matches || got.Override != NoOverride || got.Unlimited || len(got.Failures) != 1 || !strings.HasPrefix(got.Failures[0], "override 0: the expression int(plan) > 3 failed") {
		t.Errorf("%+v", got)
	}
}

func TestExplanationsAreBounded(t *testing.T) {
	values := ""
	for i := range 100 {
		values += "v" + strings.Repeat("i", i) + ", "
	}
	s := compiled(t, `rules: [{name: a, key: [], limits: [1/1m], match: {user: [`+values+`z]}}]`)
	got := s.Explain(callOf("", "user", strings.Repeat("é", 100_000)), 1, nil).Rules[0]
	if len(got.Why) > 1000 || !strings.Contains(got.Why, "93 others") || !strings.Contains(got.Why, "…") {
		t.Errorf("%d bytes: %.1000s", len(got.Why), got.Why)
	}
}
