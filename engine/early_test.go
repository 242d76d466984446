package engine_test

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

// What is known before the body decides what it can, charges nothing, and counts denials once.
func TestDecideEarly(t *testing.T) {
	const text = `
attributes: {model: {json: model}, user: {header: X-User}}
rules:
  - name: per-user
    match: {domain: default}
    key: [user]
    limits: [{rate: 2/1h, algorithm: fixed_window}]
    penalty: {after: 2, within: 1h, bans: [1m]}
  - {name: per-model, key: [model], limits: [{rate: 100/1h, algorithm: fixed_window}]}
  - {name: tried, mode: shadow, key: [], limits: [{rate: 1/1h, algorithm: fixed_window}]}
lists:
  allow: [{user: friend}]
  deny: [{user: mallory}]
`
	var seen recordingObserver
	clock := penstock.InstantOf(time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC))
	s := newEngine(t, text, engine.Options{Observe: seen.observe, Now: func() penstock.Instant { return clock }})
	head := func(user string) *penstock.Call {
		return &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: user}}}
	}
	early := func(user string, peek bool) (bool, penstock.Verdict) {
		var v penstock.Verdict
		return s.DecideEarly(t.Context(), head(user), &v, peek), v
	}
	if done, v := early("mallory", false); !done || v.Allowed || v.Reason != penstock.ReasonDenyList {
		t.Errorf("on the deny list: %v %+v", done, v)
	}
	if done, v := early("friend", false); !done || !v.Allowed || v.Reason != penstock.ReasonAllowList {
		t.Errorf("on the allow list: %v %+v", done, v)
	}
	if len(seen.seen) != 2 {
		t.Errorf("observed %q", seen.seen)
	}
	seen.seen = nil
	for i := range 10 {
		if done, v := early("ann", true); done {
			t.Fatalf("%d: decided without the body: %+v", i, v)
		}
	}
	for i, left := range []int64{1, 0} { // nothing of the above was charged
		c, v := head("ann"), penstock.Verdict{}
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: "model", Value: "m"})
		if err := s.Decide(t.Context(), c, &v); err != nil || !v.Allowed || v.Decision.Remaining != left {
			t.Fatalf("%d: %v %+v", i, err, v)
		}
	}
	if done, _ := early("ann", false); done {
		t.Error("without peek the store was asked")
	}
	seen.seen = nil
	for i, want := range []penstock.Reason{penstock.ReasonOverLimit, penstock.ReasonBanned, penstock.ReasonBanned} {
		if done, v := early("ann", true); !done || v.Allowed || v.Reason != want || v.Rule != "per-user" {
			t.Errorf("denied %d: %v %+v", i, done, v)
		}
	}
	if len(seen.seen) != 3 {
		t.Errorf("observed %q", seen.seen)
	}
	if done, _ := early("bob", true); done {
		t.Error("another client was decided without the body")
	}
}
