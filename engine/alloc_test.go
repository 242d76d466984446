package engine_test

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/racetest"
)

// The most frequent decisions must not allocate.
func TestDecideAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	for _, test := range allocationCases {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, test.rules, engine.Options{Entitlements: table{{"plan", "gold", "requests"}: {Number: 1_000_000}}})
			c := penstock.Call{Cost: 1, ID: "call-1", Attributes: []penstock.Attribute{
				{Name: "ip", Value: "192.0.2.1"}, {Name: "method", Value: "GET"}, {Name: "host", Value: "example.org"},
				{Name: "path", Value: "/search"}, {Name: "user", Value: "u1"}, {Name: "quota", Value: "1000000"}, {Name: "plan", Value: "gold"}, {Name: "bad", Value: "many"},
			}}
			var v penstock.Verdict
			decide := func() {
				if err := e.Decide(t.Context(), &c, &v); err != nil {
					t.Fatal(err)
				}
			}
			decide()
			if got := testing.AllocsPerRun(100, decide); got != 0 {
				t.Errorf("%v allocations for a decision", got)
			}
			if v.Reason != test.reason {
				t.Errorf("the reason is %v, not %v: something else was measured", v.Reason, test.reason)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, test := range allocationCases {
		b.Run(test.name, func(b *testing.B) {
			e := newEngine(b, test.rules, engine.Options{})
			c := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{
				{Name: "ip", Value: "192.0.2.1"}, {Name: "method", Value: "GET"}, {Name: "host", Value: "example.org"},
				{Name: "path", Value: "/search"}, {Name: "user", Value: "u1"},
			}}
			var v penstock.Verdict
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Decide(b.Context(), &c, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var allocationCases = []struct {
	name, rules string
	reason      penstock.Reason
}{
	{"no rule", `rules: [{name: other, match: {domain: other}, key: [], limits: [1/1m]}]`, penstock.ReasonNoRule},
	{"one rule", `rules: [{name: one, key: [user], limits: [1000000000/1m]}]`, penstock.ReasonOK},
	{"three rules, five limits", `
rules:
  - {name: per-ip, key: [ip], limits: [100000000/1m, {rate: 1000000000/1h, algorithm: fixed_window}]}
  - {name: per-user, key: [user], limits: [{rate: 100000000/1s, algorithm: token_bucket}, 1000000000/1d]}
  - {name: all, key: [], limits: [1000000000/1m]}
`, penstock.ReasonOK},
	{"denied", `rules: [{name: none, key: [user], limits: [0/1m]}]`, penstock.ReasonOverLimit},
	{"denied of three", `
rules:
  - {name: per-ip, key: [ip], limits: [100000000/1m]}
  - {name: none, key: [user], limits: [{rate: 0/1m, algorithm: fixed_window}, 1000/1d]}
  - {name: tried, mode: shadow, key: [], limits: [1000000000/1m]}
`, penstock.ReasonOverLimit},
	{"number of a claim, in the key", `rules: [{name: one, key: [user, quota], limits: [{rate: "{quota}/1h", max: 1000000000, default: 1}]}]`, penstock.ReasonOK},
	{"number of a claim", `rules: [{name: one, key: [user], limits: [{rate: "{quota}/1h", max: 1000000000, default: 1}]}]`, penstock.ReasonOK},
	{"bad number", `rules: [{name: one, key: [user], limits: [{rate: "{bad}/1h", max: 1000000000, default: 1000000}]}]`, penstock.ReasonOK},
	{"entitlement", `rules: [{name: one, key: [user], limits: [{rate: "{user.requests | plan.requests}/1h", max: 1000000000, default: 1}]}]`, penstock.ReasonOK},
	{"cost without its attribute", `rules: [{name: one, key: [user], cost: {attribute: tokens}, limits: [1000000000/1m]}]`, penstock.ReasonOK},
}
