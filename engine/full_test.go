package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
)

const fullRules = `
rules:
  - {name: fill, match: {path: /fill}, key: [user], limits: [{rate: 1/24h, algorithm: fixed_window}]}
  - {name: login, match: {path: /login}, key: [user], limits: [{rate: 3/24h, algorithm: sliding_window_log}]}
  - {name: local, match: {path: /local}, key: [user], limits: [{concurrent: 2, ttl: 1h}]}
  - {name: divided, match: {path: /divided}, on_store_error: {local: divided}, key: [user], limits: [{concurrent: 2, ttl: 1h}]}
  - {name: deny, match: {path: /deny}, on_store_error: deny, key: [user], limits: [{concurrent: 2, ttl: 1h}]}
  - {name: allow, match: {path: /allow}, on_store_error: allow, key: [user], limits: [{concurrent: 2, ttl: 1h}]}
  - {name: tried, match: {path: /tried}, mode: shadow, key: [user], limits: [{concurrent: 2, ttl: 1h}]}
  - {name: beside, match: {path: /tried}, key: [user], limits: [{rate: 3/24h, algorithm: token_bucket}]}
`

// fullStore returns a store that has no room for any other key.
func fullStore(t *testing.T) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: memstore.MinBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e := newEngine(t, fullRules, engine.Options{Store: s})
	var v penstock.Verdict
	for n := 0; s.Stats().Shared < 20; n++ {
		call := penstock.Call{Cost: 1, Attributes: attributes("path", "/fill", "user", fmt.Sprint("filler-", n))}
		if err := e.Decide(t.Context(), &call, &v); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A full store does not allow anything, as the store of a node or as its local fallback, except under rules
// whose failure policy is to allow.
func TestFullStoreDenies(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"memory":   {Store: fullStore(t)},
		"fallback": {Store: panics{}, Local: fullStore(t)},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, fullRules, o)
			decide := func(path, user string) (v penstock.Verdict, err error) {
				call := penstock.Call{Cost: 1, Attributes: attributes("path", path, "user", user)}
				return v, e.Decide(t.Context(), &call, &v)
			}
			for user := range 50 {
				passed := 0
				for range 10 {
					v, _ := decide("/login", fmt.Sprint("new-", user))
					if v.Quality == penstock.QualityOpen || v.Quality == penstock.QualityClosed {
						t.Fatalf("a new key is not decided: %+v", v)
					}
					if v.Allowed {
						passed++
					}
				}
				if passed > 3 {
					t.Fatalf("%d requests of a new key passed, the limit is 3", passed)
				}
			}
			for path, want := range map[string]penstock.Quality{
				"/local": penstock.QualityClosed, "/divided": penstock.QualityClosed, "/deny": penstock.QualityClosed, "/allow": penstock.QualityOpen,
			} {
				v, err := decide(path, "new")
				if v.Allowed != (path == "/allow") || v.Quality != want || v.Reason != penstock.ReasonStoreError || !errors.Is(err, penstock.ErrUnavailable) {
					t.Errorf("%s: %+v, %v", path, v, err)
				}
			}
			passed := 0
			for range 10 {
				v, _ := decide("/tried", "new")
				if v.Quality == penstock.QualityOpen || v.Quality == penstock.QualityClosed {
					t.Fatalf("a shadow rule for which there is no room has a say: %+v", v)
				}
				if v.Allowed {
					passed++
				}
			}
			if passed > 3 {
				t.Errorf("%d requests beside a shadow rule passed, the limit is 3", passed)
			}
			// Several requests are decided atomically.
			calls := []penstock.Call{
				{Cost: 1, Attributes: attributes("path", "/local", "user", "other")},
				{Cost: 1, Attributes: attributes("path", "/local", "user", "fresh")},
			}
			verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
			e.DecideTogether(t.Context(), calls, verdicts, errs)
			if verdicts[1].Allowed || verdicts[1].Quality != penstock.QualityClosed {
				t.Errorf("together: %+v", verdicts)
			}
		})
	}
}
