package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
)

const entitledRules = `
attributes: {tenant: {claim: tenant}, plan: {claim: plan}}
rules:
  - name: api
    key: [tenant]
    limits: [{rate: "{tenant.requests | plan.requests}/1h", algorithm: fixed_window, max: 100, default: 2}]
    overrides:
      - {match: {tenant: friend}, limits: unlimited}
  - {name: per-user, key: [user], limits: [{rate: "{plan.requests}/1h", max: 100, default: 2}, 50/1d]}
  - {name: other, key: [ip], limits: [1000/1h]}
`

// entitled returns a row to set.
func entitled(attribute, value, limit string, number int64) map[string]any {
	return map[string]any{"attribute": attribute, "value": value, "limit": limit, "number": number}
}

func setEntitlements(s *testAdmin, rows ...any) admin.EntitlementsChanged {
	s.t.Helper()
	return get[admin.EntitlementsChanged](s, "POST", "/v1/entitlements", object("set", rows, "note", "test"))
}

// allowed returns how many of ten requests of a tenant pass.
func allowed(s *testAdmin, tenant string) (n int) {
	s.t.Helper()
	for range 10 {
		if s.call("tenant", tenant) {
			n++
		}
	}
	return n
}

// A row that an operator sets applies soon, keeps what was used when it changes, and is explained and audited.
func TestEntitlements(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: entitledRules})
	limitIs := func(want int64) func() bool {
		return func() bool {
			view := get[admin.TenantView](s, "POST", "/v1/entitlements/show", object("attributes", map[string]string{"tenant": "acme"}))
			return view.Limits[0].Number.Number == want
		}
	}
	if got := allowed(s, "acme"); got != 2 {
		t.Errorf("%d of 10 pass by default", got)
	}
	done := setEntitlements(s, entitled("tenant", "acme", "requests", 5), entitled("plan", "gold", "requests", 7))
	if done.Added != 2 || len(done.Warnings) != 0 {
		t.Errorf("%+v", done)
	}
	eventually(t, "the row applies", limitIs(5))
	if got := allowed(s, "acme"); got != 3 {
		t.Errorf("%d of 10 pass with 2 of 5 used", got)
	}
	until := s.clock.Now().Add(time.Hour).UTC().Truncate(time.Second)
	done = get[admin.EntitlementsChanged](s, "POST", "/v1/entitlements", object("set", []any{map[string]any{"attribute": "tenant", "value": "acme", "limit": "requests", "number": 6, "until": until}}))
	if done.Changed != 1 {
		t.Errorf("%+v", done)
	}
	eventually(t, "the changed row applies", limitIs(6))
	if got := allowed(s, "acme"); got != 1 {
		t.Errorf("%d of 10 pass with 5 of 6 used", got)
	}
	explained := get[admin.Explanation](s, "POST", "/v1/explain", object("attributes", map[string]string{"tenant": "acme", "plan": "gold", "user": "u1"}))
	if n := explained.Rules[0].Numbers[0]; n.Origin != "entitlement" || n.Source != "tenant.requests" || n.Value != "acme" || n.Number != 6 || n.Max != 100 || !n.Until.Equal(until) {
		t.Errorf("%+v", n)
	}
	if n := explained.Rules[1].Numbers; n[0].Number != 7 || n[0].Source != "plan.requests" || n[1].Origin != "document" || n[1].Number != 50 {
		t.Errorf("%+v", n)
	}
	// A viewer does not see the numbers of a tenant of their choice, as at /v1/entitlements.
	if got := s.askAs(viewerToken, "POST", "/v1/explain", object("attributes", map[string]string{"tenant": "acme", "plan": "gold", "user": "u1"})).Body.String(); strings.Contains(got, `"number":6`) || !strings.Contains(got, `"entitlements_hidden":true`) {
		t.Errorf("explained to a viewer: %s", got)
	}
	done = get[admin.EntitlementsChanged](s, "POST", "/v1/entitlements", object("delete", []any{map[string]string{"attribute": "tenant", "value": "acme"}}))
	if done.Deleted != 1 {
		t.Errorf("%+v", done)
	}
	eventually(t, "the row is gone", limitIs(2))

	deeds := get[admin.AuditPage](s, "GET", "/v1/audit", "")
	told := fmt.Sprint(deeds.Events)
	for _, want := range []string{`test: plan="gold" requests: none → 7; tenant="acme" requests: none → 5`, `tenant="acme" requests: 5 → 6 until ` + until.Format(time.RFC3339), "→ none"} {
		if !strings.Contains(told, want) {
			t.Errorf("the audit lacks %s: %s", want, told)
		}
	}
}

// A row that has no effect, or would lift a limit above its maximum, is said to.
func TestDoubtfulEntitlements(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: entitledRules})
	done := setEntitlements(s, entitled("tenant", "big", "requests", 101), entitled("tenant", "acme", "requets", 5))
	if len(done.Warnings) != 2 || !strings.Contains(done.Warnings[0], `tenant="big" requests is 101, above the maximum of 100 in rule api: these clients get the default of 2`) || !strings.Contains(done.Warnings[1], "{tenant.requets}") {
		t.Errorf("%q", done.Warnings)
	}
	eventually(t, "the row is read", func() bool {
		explained := get[admin.Explanation](s, "POST", "/v1/explain", object("attributes", map[string]string{"tenant": "big"}))
		return explained.Rules[0].Numbers[0].Reason == "above_max"
	})
	if got := allowed(s, "big"); got != 2 {
		t.Errorf("%d of 10 pass", got)
	}
	s.refused("POST", "/v1/entitlements", object("set", []any{entitled("tenant", "acme", "requests", -1)}), 400, admin.Invalid, "number -1")
	s.refused("POST", "/v1/entitlements", object("set", []any{map[string]string{"attribute": "tenant", "value": "acme", "limit": "requests"}}), 400, admin.Invalid, "set[0].number")
	s.refused("POST", "/v1/entitlements", "{}", 400, admin.Invalid, "set")
	s.refused("POST", "/v1/entitlements", object("delete", []any{map[string]string{"attribute": "tenant"}}), 400, admin.Invalid, "invalid value")
	s.refused("GET", "/v1/entitlements?cursor=nonsense", "", 400, admin.Invalid, "cursor")
	files := newTestAdmin(t, setup{kind: admin.Files})
	files.refused("GET", "/v1/entitlements", "", 404, admin.NotFound, "rules database")
	files.refused("POST", "/v1/entitlements", object("set", []any{entitled("tenant", "acme", "requests", 1)}), 404, admin.NotFound, "rules database")
	if w := s.askAs(viewerToken, "GET", "/v1/entitlements", ""); w.Code != 403 {
		t.Errorf("a viewer gets %d", w.Code)
	}
}

func TestListEntitlements(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: entitledRules})
	var rows []any
	for i := range 25 {
		rows = append(rows, entitled("tenant", fmt.Sprintf("t-%02d", i), "requests", int64(i)))
	}
	setEntitlements(s, append(rows, entitled("plan", "t-gold", "requests", 99))...)
	var numbers []int64
	for next := ""; ; {
		page := get[admin.Entitlements](s, "GET", "/v1/entitlements?"+url.Values{"attribute": {"tenant"}, "limit": {"10"}, "cursor": {next}}.Encode(), "")
		for _, e := range page.Entitlements {
			numbers = append(numbers, e.Number)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(numbers) != 25 || numbers[0] != 0 || numbers[24] != 24 {
		t.Errorf("%v", numbers)
	}
	if page := get[admin.Entitlements](s, "GET", "/v1/entitlements?prefix=t-1", ""); len(page.Entitlements) != 10 || page.Entitlements[0].Author == "" {
		t.Errorf("%+v", page)
	}
}

// A tenant's limits are shown with where each number comes from, also of rules that count by more than the tenant.
func TestTenantView(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: entitledRules})
	setEntitlements(s, entitled("plan", "gold", "requests", 7))
	var view admin.TenantView
	eventually(t, "the row is read", func() bool {
		view = get[admin.TenantView](s, "POST", "/v1/entitlements/show", object("attributes", map[string]string{"plan": "gold"}))
		return len(view.Limits) == 3 && view.Limits[0].Number.Number == 7
	})
	if l := view.Limits; l[0].Rule != "api" || l[1].Rule != "per-user" || l[1].Number.Origin != "entitlement" || l[2].Number.Origin != "document" || l[2].Policy != "per-user:1d" || l[1].Key[0] != "user" {
		t.Errorf("%+v", l)
	}
	if len(view.Entitlements) != 1 || view.Entitlements[0].Number != 7 || len(view.Readable) != 3 || view.Readable[0].Attribute != "tenant" || view.Readable[0].Max != 100 || view.Readable[0].Default != 2 {
		t.Errorf("%+v", view)
	}
	view = get[admin.TenantView](s, "POST", "/v1/entitlements/show", object("attributes", map[string]string{"tenant": "friend"}))
	if len(view.Limits) != 1 || view.Limits[0].Text != "unlimited" || view.Limits[0].Number.Origin != "override" {
		t.Errorf("%+v", view.Limits)
	}
}
