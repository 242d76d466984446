package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/storetest"
)

// onStores runs a test with a store in memory and with one in Redis.
func onStores(t *testing.T, do func(t *testing.T, store penstock.Store)) {
	t.Run("memory", func(t *testing.T) { do(t, newMemory(t)) })
	t.Run("Redis", func(t *testing.T) { do(t, newRedis(t, redistest.Start(t), "")) })
}

// A strictRule is one rule with an override for static files, which is not in the key. LIMIT and MORE are
// the limits' numbers.
const strictRule = `
rules:
  - name: site
    key: [ip]
    consistency: CONSISTENCY
    limits: [{rate: LIMIT/1m, ALGORITHM}]
    overrides:
      - {match: {path: '/static/{rest...}'}, limits: [{rate: MORE/1m, ALGORITHM}]}
`

func strict(limit, more int, algorithm, consistency string) string {
	return strings.NewReplacer("LIMIT", fmt.Sprint(limit), "MORE", fmt.Sprint(more), "ALGORITHM", algorithm, "CONSISTENCY", consistency).Replace(strictRule)
}

// A testClient sends requests of one client at instants of its own.
type testClient struct {
	t   *testing.T
	e   *engine.Engine
	now penstock.Instant
}

func newVisitor(t *testing.T, store penstock.Store, r engine.Rules) *testClient {
	v := &testClient{t: t, now: beginning}
	v.e = newEngine(t, "", engine.Options{Store: store, Rules: r, Now: func() penstock.Instant { return v.now }})
	return v
}

func (v *testClient) get(path string) *penstock.Verdict {
	v.t.Helper()
	var verdict penstock.Verdict
	if err := v.e.Decide(v.t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("ip", "192.0.2.1", "path", path)}, &verdict); err != nil {
		v.t.Fatal(err)
	}
	return &verdict
}

// What passes under a rule does not depend on requests under one of its overrides that its key does not
// distinguish, and vice versa.
func TestOverrideLeavesTheRuleAlone(t *testing.T) {
	for _, test := range []struct {
		algorithm string
		limit     int
		logins    int // that pass within ten seconds of trying
	}{
		{"algorithm: token_bucket", 10, 11}, // ten, and one that came back after six seconds
		{"algorithm: token_bucket, refill: interval", 10, 10},
		{"algorithm: leaky_bucket", 6, 2}, // at 0 and at 10 s
		{"algorithm: fixed_window", 10, 10},
		{"algorithm: sliding_window_counter", 10, 10},
		{"algorithm: sliding_window_log", 10, 10},
	} {
		for _, static := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/static %v", test.algorithm, static), func(t *testing.T) {
				onStores(t, func(t *testing.T, store penstock.Store) {
					v := newVisitor(t, store, engine.Fixed(compile(t, strict(test.limit, 6000, test.algorithm, "exact"))))
					logins := 0
					for tick := range 401 { // every 25 ms
						v.now = beginning + penstock.Instant(tick)*25_000
						if v.get("/login").Allowed {
							logins++
						}
						if static && tick%4 == 0 && !v.get("/static/logo.png").Allowed {
							t.Fatalf("/static is denied after %v", v.now.Sub(beginning))
						}
					}
					if logins != test.logins {
						t.Errorf("%d /login requests passed, want %d", logins, test.logins)
					}
				})
			})
		}
	}
}

func newLeases(t *testing.T, store penstock.Store) *lease.Store {
	t.Helper()
	leases, err := lease.New(storetest.Full(store), lease.Options{Pools: lease.MinPools})
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

// Leases of an override are not spent under the rule's own limit: of a minute full of both kinds of
// requests exactly ten pass under 10/1m.
func TestLeasesOfAnOverride(t *testing.T) {
	onStores(t, func(t *testing.T, store penstock.Store) {
		leases := newLeases(t, store)
		v := newVisitor(t, leases, engine.Fixed(compile(t, strict(10, 100_000, "algorithm: fixed_window", "leased"))))
		logins, leased := 0, 0
		for tick := range 6_000 {
			v.now = beginning + penstock.Instant(tick)*10_000
			if static := v.get("/static/logo.png"); !static.Allowed {
				t.Fatalf("/static is denied after %d requests", tick)
			} else if static.Quality == penstock.QualityLeased {
				leased++
			}
			if v.get("/login").Allowed {
				logins++
			}
		}
		if logins != 10 || leased == 0 {
			t.Errorf("%d /login requests passed, want 10; %d others by leases", logins, leased)
		}
	})
}

// Leases that were taken under a limit are not spent once the document has lowered it, and what was consumed
// under the old limit counts under the new one.
func TestLeasesAfterALoweredLimit(t *testing.T) {
	onStores(t, func(t *testing.T, store penstock.Store) {
		leases := newLeases(t, store)
		live := &testEngine{rules: compile(t, strict(100_000, 200_000, "algorithm: fixed_window", "leased"))}
		v := newVisitor(t, leases, live)
		for range 200 {
			v.get("/login")
			v.get("/static/logo.png")
		}
		if stats := leases.Stats(); stats.Leased == 0 || stats.Permits == stats.Leased {
			t.Fatalf("no leases are left: %+v", stats)
		}
		live.rules = compile(t, strict(10, 20, "algorithm: fixed_window", "leased"))
		for tick := range 100 {
			v.now = beginning + penstock.Instant(tick)*1000 // while leases of the old limits would be valid
			for _, path := range []string{"/login", "/static/logo.png"} {
				if got := v.get(path); got.Allowed || got.Decision.Used < 200 {
					t.Fatalf("%s after the change: allowed %v, %d used", path, got.Allowed, got.Decision.Used)
				}
			}
		}
		v.now = beginning.Add(time.Minute)
		passed := map[string]int{}
		for range 100 {
			for _, path := range []string{"/login", "/static/logo.png"} {
				if v.get(path).Allowed {
					passed[path]++
				}
			}
		}
		if passed["/login"] != 10 || passed["/static/logo.png"] != 20 {
			t.Errorf("%v passed in the next minute, want 10 and 20", passed)
		}
	})
}

// A denial under one limit says nothing about requests under another.
func TestDenyCacheWithOverrides(t *testing.T) {
	onStores(t, func(t *testing.T, store penstock.Store) {
		cache, err := denycache.New(storetest.Full(store), denycache.Options{MaxEntries: 64})
		if err != nil {
			t.Fatal(err)
		}
		live := &testEngine{rules: compile(t, strict(2, 4, "algorithm: fixed_window", "exact"))}
		v := newVisitor(t, cache, live)
		check := func(path string, allowed bool, used int64) {
			t.Helper()
			if got := v.get(path); got.Allowed != allowed || got.Decision.Used != used {
				t.Errorf("%s: allowed %v, %d used; want %v, %d", path, got.Allowed, got.Decision.Used, allowed, used)
			}
		}
		check("/login", true, 1)
		check("/login", true, 2)
		for range 3 {
			check("/login", false, 2)
		}
		for i := range int64(4) {
			check("/static/a", true, i+1)
			check("/login", false, 2)
		}
		for range 3 {
			check("/static/a", false, 4)
			check("/login", false, 2)
		}
		if cache.Stats().Hits == 0 {
			t.Error("the cache has answered nothing")
		}
		live.rules = compile(t, strict(3, 2, "algorithm: fixed_window", "exact"))
		check("/login", true, 3)
		check("/static/a", false, 4)
		live.rules = compile(t, strict(3, 5, "algorithm: fixed_window", "exact"))
		check("/static/a", true, 5)
		check("/login", false, 3)
	})
}
