package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/admin"
)

// Proposed rules are tried on recent requests, next to the current rules.
func TestPreview(t *testing.T) {
	t.Parallel()
	at := penstock.InstantOf(time.Now().Add(-time.Minute))
	s := newTestAdmin(t, setup{now: func() penstock.Instant {
		at = at.Add(time.Second)
		return at
	}})
	for range 6 {
		search(s, "u1")
	}
	for i := range 4 {
		search(s, fmt.Sprint("other-", i))
	}
	proposed := strings.NewReplacer("3/1h", "5/1h", "name: tried", "name: all", "mode: shadow", "mode: enforce", "2/1h", "8/1h").Replace(someRules)
	p := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", proposed))
	if p.Calls != 10 || p.StandsFor != 10 || p.From.IsZero() || p.To.Before(p.From) {
		t.Errorf("%+v", p)
	}
	// The current rules allow 3 of u1's requests and all others; the proposed ones allow 5 of u1's, and 3 of the 4
	// others until all 8 are used.
	if p.Current != (admin.Counts{Allowed: 7, Denied: 3, Shadow: 8}) || p.Proposed != (admin.Counts{Allowed: 8, Denied: 2}) || p.NewlyAllowed != 2 || p.NewlyDenied != 1 {
		t.Errorf("%+v", p)
	}
	byRule := map[string]admin.RulePreview{}
	for _, r := range p.Rules {
		byRule[r.Rule] = r
	}
	if r := byRule["per-user"]; *r.Current != (admin.Counts{Allowed: 7, Denied: 3}) || *r.Proposed != (admin.Counts{Allowed: 9, Denied: 1}) {
		t.Errorf("%+v %+v", r.Current, r.Proposed)
	}
	if r := byRule["tried"]; r.Proposed != nil || r.Current.Shadow != 8 {
		t.Errorf("%+v", r)
	}
	if r := byRule["all"]; r.Current != nil || r.Proposed.Denied != 1 {
		t.Errorf("%+v", r)
	}
	var found bool
	for _, k := range p.Keys {
		found = found || k.Rule == "per-user" && k.Key["user"] == "u1" && k.Current == 3 && k.Proposed == 1
	}
	for _, k := range p.Keys {
		if k.Current == k.Proposed || k.Rule == "tried" {
			t.Errorf("nothing changes for %+v: a shadow rule denies nobody", k)
		}
	}
	if !found {
		t.Errorf("%+v", p.Keys)
	}

	same := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", someRules))
	if len(same.Keys) != 0 {
		t.Errorf("the same rules change something for %+v", same.Keys)
	}
	if same.Current != same.Proposed || same.NewlyAllowed+same.NewlyDenied != 0 || same.Current.Denied != 3 {
		t.Errorf("the same rules: %+v", same)
	}
	// None of this was charged to a client.
	if k := get[admin.KeyStates](s, "POST", "/v1/keys/show", about("attributes", u1)).Keys[0]; k.Limits[0].Used != 3 {
		t.Errorf("%+v", k)
	}
}

func TestPreviewWithoutTraffic(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	p := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", someRules))
	if p.Calls != 0 || len(p.Rules) != 3 || len(p.Keys) != 0 {
		t.Errorf("%+v", p)
	}
}

// A new limit of 0 is pointed out; one that is there already, and one in shadow mode, are not.
func TestPreviewOfZeroLimits(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{rules: strings.Replace(someRules, "1000/1h", "0/1h", 1)})
	proposed := strings.NewReplacer("3/1h", "0/1h", "1000/1h", "0/1h", "2/1h", "0/1h").Replace(someRules)
	if p := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", proposed)); len(p.DenyAll) != 1 || p.DenyAll[0] != "per-user" {
		t.Errorf("%q", p.DenyAll)
	}
}

// A preview knows the numbers of the entitlements table, and that requests give their permits back.
func TestPreviewWithEntitlementsAndPermits(t *testing.T) {
	t.Parallel()
	const document = `
attributes: {tenant: {claim: tenant}}
rules:
  - name: api
    key: [tenant?]
    limits: [{rate: "{tenant.requests}/1h", algorithm: sliding_window_log, max: 100, default: 2}]
  - {name: running, key: [tenant?], limits: [{concurrent: 5, ttl: 10m}]}
  - {name: logins, key: [tenant?], limits: [1000/1h], charge_if: "status == 401"}
`
	at := penstock.InstantOf(time.Now().Add(-2 * time.Minute))
	s := newTestAdmin(t, setup{rules: document, now: func() penstock.Instant {
		at = at.Add(time.Second)
		return at
	}})
	setEntitlements(s, entitled("tenant", "acme", "requests", 60))
	eventually(t, "the row applies", func() bool {
		view := get[admin.TenantView](s, "POST", "/v1/entitlements/show", object("attributes", map[string]string{"tenant": "acme"}))
		return view.Limits[0].Number.Number == 60
	})
	for i := range 40 {
		var v penstock.Verdict
		call := penstock.Call{Attributes: []penstock.Attribute{{Name: "tenant", Value: "acme"}}, Cost: 1}
		if err := s.engine.Decide(t.Context(), &call, &v); err != nil || !v.Allowed {
			t.Fatalf("request %d: %+v, %v", i, v, err)
		}
		done := penstock.Conclusion{Reservation: v.Reservation, Response: &penstock.Response{Status: 200, Bytes: penstock.UnknownBytes}}
		if err := s.engine.Conclude(t.Context(), &done, &v); err != nil {
			t.Fatal(err)
		}
	}
	p := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", document))
	if all := (admin.Counts{Allowed: 40}); p.Current != all || p.Proposed != all || p.NewlyDenied != 0 {
		t.Errorf("%+v", p)
	}
	if len(p.Problems) != 2 || !strings.Contains(p.Problems[0].Message, `"running" limits concurrency`) || !strings.Contains(p.Problems[1].Message, `"logins" charges by the response`) {
		t.Errorf("%+v", p.Problems)
	}
	less := get[admin.Preview](s, "POST", "/v1/rules/preview", object("document", strings.Replace(document, "max: 100", "max: 50", 1)))
	if less.Proposed.Denied != 38 || less.NewlyDenied != 38 { // a number above the maximum: the default
		t.Errorf("%+v", less)
	}
}
