package engine_test

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/lease"
)

const hotAndOthers = `
rules:
  - {name: hot,   key: [user], consistency: leased, limits: [{rate: 10000/1m, algorithm: fixed_window}]}
  - {name: tried, key: [shop], consistency: leased, mode: shadow, limits: [{rate: 10000/1m, algorithm: fixed_window}]}
  - {name: few,   key: [card], limits: [{rate: 1/1m, algorithm: fixed_window}]}
`

// A verdict says whether it is based on a lease. It is not if the store denied the request, or if leases
// decided only shadow rules.
func TestVerdictsByPermits(t *testing.T) {
	leases, err := lease.New(newMemory(t), lease.Options{Pools: lease.MinPools})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, hotAndOthers, engine.Options{Store: leases, Local: newMemory(t), Now: func() penstock.Instant { return beginning }})
	decide := func(pairs ...string) (quality penstock.Quality, byPermits bool) {
		t.Helper()
		var v penstock.Verdict
		before := leases.Stats().Leased
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes(pairs...)}, &v); err != nil {
			t.Fatal(err)
		}
		return v.Quality, leases.Stats().Leased != before
	}
	seen := map[penstock.Quality]int{}
	for range 200 {
		quality, byPermits := decide("user", "u")
		if (quality == penstock.QualityLeased) != byPermits {
			t.Fatalf("quality %v, by permits: %v", quality, byPermits)
		}
		seen[quality]++
		decide("shop", "s")
	}
	if len(seen) != 2 || seen[penstock.QualityExact] == 0 || seen[penstock.QualityLeased] == 0 {
		t.Fatalf("qualities were %v: not both kinds were tried", seen)
	}
	for _, test := range []struct {
		name      string
		pairs     []string
		byPermits bool
		want      penstock.Quality
	}{
		{"permits beside the store", []string{"user", "u", "card", "c"}, true, penstock.QualityLeased},
		{"denied by the store", []string{"user", "u", "card", "c"}, false, penstock.QualityExact},
		{"permits of a shadow rule", []string{"shop", "s", "card", "d"}, true, penstock.QualityExact},
	} {
		if quality, byPermits := decide(test.pairs...); quality != test.want || byPermits != test.byPermits {
			t.Errorf("%s: %v, by permits: %v; want %v, %v", test.name, quality, byPermits, test.want, test.byPermits)
		}
	}
}
