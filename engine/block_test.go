package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/racetest"
)

const blockRules = `
rules:
  - {name: per-user, key: [user], limits: [{rate: 5/1h, algorithm: fixed_window}]}
lists:
  allow: [{user: root}]
`

func block(attribute, value string, until time.Time) blocklist.Block {
	return blocklist.Block{ID: attribute + value, Attribute: attribute, Value: value, Until: until}
}

// A block denies what lists and rules would allow, charges nothing, and ends by itself.
func TestBlock(t *testing.T) {
	clock := penstock.InstantOf(time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC))
	until := clock.Add(time.Hour)
	var blocks blocklist.List
	var seen []*blocklist.Block
	e := newEngine(t, blockRules, engine.Options{
		Blocks: &blocks, Now: func() penstock.Instant { return clock },
		Observe: func(o *engine.Observation) { seen = append(seen, o.Block) },
	})
	decide := func(pairs ...string) penstock.Verdict {
		t.Helper()
		var v penstock.Verdict
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes(pairs...)}, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := decide("user", "u1"); !v.Allowed || seen[0] != nil {
		t.Fatalf("%+v before a block", v)
	}
	blocks.Set([]blocklist.Block{block("user", "u1", until.Time()), block("user", "root", until.Time())})
	for _, who := range []string{"u1", "root"} {
		seen = nil
		v := decide("user", who)
		if v.Allowed || v.Reason != penstock.ReasonBlocked || v.Decision.RetryAfter != time.Hour || v.BannedUntil != until || v.Rule != "" || v.Now != clock || v.RulesVersion != 1 {
			t.Errorf("%s: %+v", who, v)
		}
		if len(seen) != 1 || seen[0] == nil || seen[0].Value != who {
			t.Errorf("%s: observed %v", who, seen)
		}
	}
	if v := decide("user", "u2"); !v.Allowed {
		t.Errorf("another client: %+v", v)
	}
	clock = until
	if v := decide("user", "u1"); !v.Allowed || v.Decision.Used != 1 {
		t.Errorf("after the block: %+v; the fixed window is new, and the blocked requests are not in it", v)
	}
	blocks.Set(nil)
	if v := decide("user", "root"); v.Reason != penstock.ReasonAllowList {
		t.Errorf("without blocks: %+v", v)
	}
}

// A blocked request charges nothing, also to requests that are decided with it.
func TestBlockChargesNothing(t *testing.T) {
	var blocks blocklist.List
	blocks.Set([]blocklist.Block{block("ip", "192.0.2.0/24", time.Now().Add(time.Hour))})
	e := newEngine(t, blockRules, engine.Options{Blocks: &blocks})
	calls := []penstock.Call{
		{Cost: 1, Attributes: attributes("user", "u1")},
		{Cost: 1, Attributes: attributes("user", "u1", "ip", "192.0.2.9")},
	}
	verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
	e.DecideTogether(t.Context(), calls, verdicts, errs)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if verdicts[1].Reason != penstock.ReasonBlocked || verdicts[1].Allowed {
		t.Errorf("%+v", verdicts[1])
	}
	e.DecideEach(t.Context(), calls, verdicts, errs)
	if v := verdicts[0]; !v.Allowed || v.Decision.Used != 1 {
		t.Errorf("%+v: something was charged together with a blocked request", v)
	}
	if verdicts[1].Reason != penstock.ReasonBlocked {
		t.Errorf("%+v in a batch", verdicts[1])
	}
}

// Blocks hold while the store does not answer, and parts of Envoy requests are blocked too.
func TestBlockNeedsNoStore(t *testing.T) {
	var blocks blocklist.List
	blocks.Set([]blocklist.Block{block("user", "u1", time.Now().Add(time.Hour))})
	store := &waveringStore{Store: newMemory(t)}
	store.down.Store(true)
	snapshot := compile(t, strings.Replace(blockRules, "key: [user]", "key: [user], on_store_error: allow", 1))
	e := newEngine(t, "", engine.Options{Store: store, Rules: engine.Fixed(snapshot), Blocks: &blocks})
	for user, want := range map[string]penstock.Reason{"u1": penstock.ReasonBlocked, "u2": penstock.ReasonStoreError} {
		var v penstock.Verdict
		c := penstock.Call{Cost: 1, Attributes: attributes("user", user)}
		if err := e.Decide(t.Context(), &c, &v); (err == nil) != (user == "u1") || v.Reason != want {
			t.Errorf("%s: %+v, %v", user, v, err)
		}
		part := engine.Part{Call: c, Rule: snapshot.Rules[0], Key: []string{user}, Verdict: &v}
		e.DecideParts(t.Context(), snapshot, []engine.Part{part})
		if v.Reason != want {
			t.Errorf("a part of %s: %+v", user, v)
		}
	}
}

func TestBlockedDecisionsAllocateNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	var blocks blocklist.List
	blocks.Set([]blocklist.Block{block("ip", "192.0.2.0/24", time.Now().Add(time.Hour)), block("user", "10.0.0.0/8", time.Now().Add(time.Hour))})
	e := newEngine(t, blockRules, engine.Options{Blocks: &blocks})
	for ip, want := range map[string]penstock.Reason{"192.0.2.1": penstock.ReasonBlocked, "198.51.100.1": penstock.ReasonAllowList} {
		c := penstock.Call{Cost: 1, Attributes: attributes("method", "GET", "user", "root", "ip", ip)}
		var v penstock.Verdict
		got := testing.AllocsPerRun(100, func() {
			if err := e.Decide(t.Context(), &c, &v); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 || v.Reason != want {
			t.Errorf("%s: %v allocations, %v", ip, got, v.Reason)
		}
	}
}
