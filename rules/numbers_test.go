package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
)

// entitlements are a table of numbers.
type entitlements map[[3]string]Entitlement

func (e entitlements) Entitlement(attribute, value, name string) (Entitlement, bool) {
	found, ok := e[[3]string{attribute, value, name}]
	return found, ok
}

// An explanation says where each number comes from, and until when.
func TestOriginOfNumbers(t *testing.T) {
	s := compiled(t, `
attributes: {tenant: {claim: tenant}, plan: {claim: plan}, quota: {claim: quota}}
rules:
  - name: api
    key: [tenant]
    expires_at: 2028-01-01T00:00:00Z
    limits:
      - {rate: "{tenant.requests | plan.requests}/1h", max: 1000, default: 10}
      - {rate: "{claim: exports}/day", algorithm: fixed_window, max: 50, default: 0}
      - 100000/1d
    overrides:
      - {match: {tenant: vip}, limits: [5/1s], expires_at: 2027-06-01T00:00:00Z}
`)
	now := penstock.InstantOf(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	end, ruleEnd := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	table := entitlements{
		{"tenant", "acme", "requests"}:  {Number: 500, Until: penstock.InstantOf(end)},
		{"tenant", "old", "requests"}:   {Number: 600, Until: now},
		{"tenant", "large", "requests"}: {Number: 1001},
		{"plan", "gold", "requests"}:    {Number: 200},
		{"plan", "acme", "requests"}:    {Number: 999},
	}
	document := Number{Number: 100000, Origin: FromDocument, Until: ruleEnd}
	missing := Number{Number: 0, Origin: FromDefault, Max: 50, Reason: NoNumber, Until: ruleEnd}
	for _, test := range []struct {
		name string
		call []string
		want []Number
	}{
		{"an entitlement that ends", []string{"tenant", "acme", "plan", "gold"}, []Number{
			{Number: 500, Origin: FromEntitlement, Source: "tenant.requests", Value: "acme", Until: end, Max: 1000}, missing, document,
		}},
		{"of the plan, as the tenant's has ended", []string{"tenant", "old", "plan", "gold", "claim:exports", "7"}, []Number{
			{Number: 200, Origin: FromEntitlement, Source: "plan.requests", Value: "gold", Until: ruleEnd, Max: 1000},
			{Number: 7, Origin: FromClaim, Source: "claim: exports", Value: "7", Until: ruleEnd, Max: 50}, document,
		}},
		{"above its maximum, and not a number", []string{"tenant", "large", "plan", "gold", "claim:exports", "7.5"}, []Number{
			{Number: 10, Origin: FromDefault, Source: "tenant.requests", Value: "large", Until: ruleEnd, Max: 1000, Reason: AboveMax},
			{Number: 0, Origin: FromDefault, Source: "claim: exports", Value: "7.5", Until: ruleEnd, Max: 50, Reason: NotNumber}, document,
		}},
		{"an override", []string{"tenant", "vip"}, []Number{{Number: 5, Origin: FromOverride, Until: time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)}}},
	} {
		got := s.Explain(callOf("", test.call...), now, table).Rules[0]
		if diff := cmp.Diff(test.want, got.Numbers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		for i, m := range got.Limits {
			if m.PerWindow() != test.want[i].Number {
				t.Errorf("%s: limit %d is %v", test.name, i, m)
			}
		}
		for _, n := range got.Numbers {
			if (n.Why() != "") != (n.Reason != NoFallback) {
				t.Errorf("%s: reason %v, in words %q", test.name, n.Reason, n.Why())
			}
		}
	}
	if got := s.Keyed(callOf("", "tenant", "acme"), now, table)[0].Numbers[0].Number; got != 500 {
		t.Errorf("for operators the number is %d", got)
	}
	// A rate that names a claim needs no attribute of its own.
	read := map[string]bool{}
	err := s.CheckAttributes(penstock.DefaultDomain, func(name string, from *attribute.Source) error {
		read[name] = from != nil
		return nil
	})
	if diff := cmp.Diff(map[string]bool{"tenant": true, "plan": true, "claim:exports": true}, read); diff != "" || err != nil {
		t.Errorf("attributes read (-want +got):\n%s%v", diff, err)
	}
}

// A row that changes keeps the counters if the key has everything that the number depends on; otherwise each value of
// what it lacks has counters of its own.
func TestCountersOfNumbers(t *testing.T) {
	fingerprint := func(key, rate string, call ...string) uint64 {
		s := compiled(t, `rules: [{name: a, key: `+key+`, limits: [{rate: "`+rate+`/1h", max: 1000, default: 10}]}]`)
		got := s.Explain(callOf("", call...), 1, entitlements{{"plan", "gold", "requests"}: {Number: 5}, {"plan", "free", "requests"}: {Number: 5}}).Rules[0]
		return got.Limits[0].Fingerprint
	}
	own := compiled(t, `rules: [{name: a, key: [user], limits: [10/1h]}]`).Rules[0].Limits[0].Fingerprint
	for _, test := range []struct {
		name      string
		one, same uint64
		shared    bool
	}{
		{"in the key", fingerprint("[plan]", "{plan.requests}", "plan", "gold"), own, true},
		{"the default", fingerprint("[user]", "{plan.requests}", "user", "u", "plan", "unknown"), own, true},
		{"outside of the key", fingerprint("[user]", "{plan.requests}", "user", "u", "plan", "gold"), own, false},
		{"of another value", fingerprint("[user]", "{plan.requests}", "user", "u", "plan", "gold"), fingerprint("[user]", "{plan.requests}", "user", "u", "plan", "free"), false},
		{"of the same number", fingerprint("[user]", "{quota}", "user", "u", "quota", "7"), fingerprint("[user]", "{quota}", "user", "u", "quota", "007"), true},
		{"of another number", fingerprint("[user]", "{quota}", "user", "u", "quota", "7"), fingerprint("[user]", "{quota}", "user", "u", "quota", "8"), false},
		{"of numbers that are none", fingerprint("[user]", "{quota}", "user", "u", "quota", "x"), fingerprint("[user]", "{quota}", "user", "u", "quota", "y"), true},
	} {
		if (test.one == test.same) != test.shared {
			t.Errorf("%s: counters %x and %x", test.name, test.one, test.same)
		}
	}
}

// A reservation names the numbers it was made with. A forged one gets no more than max, and one for a limit that does
// not exist is refused.
func TestNumbersOfReservations(t *testing.T) {
	r := compiled(t, `rules: [{name: a, key: [user], limits: [{rate: "{quota}/1h", max: 1000, default: 10}, 7/1d]}]`).Rules[0]
	for _, test := range []struct{ given, want int64 }{{5, 5}, {1000, 1000}, {1 << 60, 1000}, {-1, 0}} {
		got, ok := r.LimitsWith(NoOverride, []LimitNumber{{IsData: true, Count: test.given}})
		if !ok || len(got.Data) != 2 || got.Data[0].Count != test.want || got.Data[1].Count != 7 {
			t.Errorf("with %d: %+v, %v; want %d", test.given, got.Data, ok, test.want)
		}
	}
	for _, given := range [][]LimitNumber{nil, make([]LimitNumber, 2)} {
		if got, ok := r.LimitsWith(NoOverride, given); ok {
			t.Errorf("with %d numbers: %+v", len(given), got)
		}
	}
}
