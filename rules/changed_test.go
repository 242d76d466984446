package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A client's usage survives a change of the limit's number, and of the order of limits; another algorithm,
// window, key or name starts fresh. On both stores.
func TestChangedRules(t *testing.T) {
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	shared, err := redisstore.Open(redisstore.Options{Addresses: []string{redistest.Start(t).Addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	const before = `
attributes: {user: {header: X-User-ID}, plan: {header: X-Plan}}
rules:
  - name: search
    key: [user]
    limits: [10/1m, {rate: 100/1h, algorithm: fixed_window}]
`
	for _, test := range []struct {
		name, old, new string
		used           int64 // of the first limit, before a request
	}{
		{"the same", "", "", 4},
		{"a higher limit", "10/1m", "20/1m", 4},
		{"a lower limit", "10/1m", "3/1m", 4},
		{"another order", "[10/1m, {rate: 100/1h, algorithm: fixed_window}]", "[{rate: 100/1h, algorithm: fixed_window}, 10/1m]", 4},
		{"another limit is gone", ", {rate: 100/1h, algorithm: fixed_window}", "", 4},
		{"another algorithm", "10/1m", "{rate: 10/1m, algorithm: sliding_window_log}", 0},
		{"another window", "10/1m", "10/2m", 0},
		{"another key", "key: [user]", "key: [user, plan]", 0},
		{"another name", "name: search", "name: find", 0},
	} {
		for where, store := range map[string]penstock.Store{"memory": memory, "Redis": shared} {
			t.Run(test.name+" in "+where, func(t *testing.T) {
				call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: t.Name()}, {Name: "plan", Value: "free"}}}
				old, changed := snapshot(t, before), snapshot(t, strings.Replace(before, test.old, test.new, 1))
				for range 4 {
					if out := decide(t, store, old, &call); !out.Allowed {
						t.Fatal("denied before the change")
					}
				}
				call.Cost = 0
				for _, d := range decide(t, store, changed, &call).Decisions {
					if d.Used != test.used {
						t.Errorf("used %d after the change, want %d: %+v", d.Used, test.used, d)
					}
					if test.used == 0 {
						break // the other limit continues, or starts fresh too
					}
				}
			})
		}
	}
}

func snapshot(t *testing.T, text string) *rules.Snapshot {
	t.Helper()
	doc, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := rules.Compile(doc, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// decide charges the limits of the one rule that applies.
func decide(t *testing.T, store penstock.Store, s *rules.Snapshot, call *penstock.Call) storage.Outcome {
	t.Helper()
	var m rules.Match
	now := penstock.Instant(1_794_704_739_699_202)
	s.Match(call, now, &m)
	if len(m.Rules) != 1 {
		t.Fatalf("%d rules apply", len(m.Rules))
	}
	rule := m.Rules[0].Rule
	g := storage.Group{Subject: rule.Subjects.Subject(m.Rules[0].Key...)}
	for _, meter := range rule.Limits {
		g.Charges = append(g.Charges, algorithm.Charge{Meter: meter, Cost: call.Cost})
	}
	var out storage.Outcome
	if err := store.Take(t.Context(), &storage.Ticket{Now: now, Groups: []storage.Group{g}}, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
