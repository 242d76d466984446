package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/blocklist"
)

// A denial can be cached only by all attributes that the request was denied by, and only if no rule has to see
// further requests.
func TestCacheFor(t *testing.T) {
	const limit = "limits: [{rate: 1/1m, algorithm: fixed_window}]"
	clock := penstock.InstantOf(time.Date(2026, 11, 16, 3, 0, 10, 0, time.UTC)) // 50 s before the end of a window
	for _, test := range []struct {
		name, rules string
		by          string // separated by commas
		want        time.Duration
	}{
		{"the key", `rules: [{name: a, key: [ip], ` + limit + `}]`, "ip", 50 * time.Second},
		{"more than the key", `rules: [{name: a, key: [ip], ` + limit + `}]`, "user,ip", 50 * time.Second},
		{"part of the key", `rules: [{name: a, key: [ip, user], ` + limit + `}]`, "ip", 0},
		{"all of the key", `rules: [{name: a, key: [ip, user], ` + limit + `}]`, "ip,user", 50 * time.Second},
		{"no cache", `rules: [{name: a, key: [ip], ` + limit + `}]`, "", 0},
		{"match by path", `rules: [{name: a, match: {path: /x}, key: [ip], ` + limit + `}]`, "ip", 0},
		{"with path", `rules: [{name: a, match: {path: /x}, key: [ip], ` + limit + `}]`, "ip,path", 50 * time.Second},
		{"wildcard", `rules: [{name: a, match: {path: "/{part}"}, key: [ip, part], ` + limit + `}]`, "ip", 0},
		{"wildcard with path", `rules: [{name: a, match: {path: "/{part}"}, key: [ip, part], ` + limit + `}]`, "ip,path", 50 * time.Second},
		{"match by method", `rules: [{name: a, match: {method: GET}, key: [ip], ` + limit + `}]`, "ip,path", 0},
		{"match by attribute", `rules: [{name: a, match: {user: u1}, key: [ip], ` + limit + `}]`, "ip", 0},
		{"match by expression", `rules: [{name: a, match: {when: "host != 'x'"}, key: [ip], ` + limit + `}]`, "ip", 0},
		{"with host", `rules: [{name: a, match: {when: "host != 'x'"}, key: [ip], ` + limit + `}]`, "ip,host", 50 * time.Second},
		{"override", `rules: [{name: a, key: [ip], ` + limit + `, overrides: [{match: {user: u2}, limits: [5/1m]}]}]`, "ip", 0},
		{"override by method", `rules: [{name: a, key: [ip], ` + limit + `, overrides: [{match: {method: PUT}, limits: [5/1m]}]}]`, "ip", 0},
		{"override with all", `rules: [{name: a, key: [ip], ` + limit + `, overrides: [{match: {user: u2, method: PUT}, limits: [5/1m]}]}]`, "ip,user,method", 50 * time.Second},
		{"allow list", `{rules: [{name: a, key: [ip], ` + limit + `}], lists: {allow: [{user: u2}]}}`, "ip", 0},
		{"allow list by path", `{rules: [{name: a, key: [ip], ` + limit + `}], lists: {allow: [{path: /health}]}}`, "ip", 0},
		{"allow list by address", `{rules: [{name: a, key: [ip], ` + limit + `}], lists: {allow: [{ip: 192.0.2.9}]}}`, "ip", 50 * time.Second},
		{"deny list", `{rules: [{name: a, key: [ip], ` + limit + `}], lists: {deny: [{user: u1}]}}`, "user", time.Hour},
		{"deny list by more", `{rules: [{name: a, key: [ip], ` + limit + `}], lists: {deny: [{user: u1}, {ip: 192.0.2.9}]}}`, "user", 0},
		{"cost by attribute", `rules: [{name: a, key: [ip], cost: {attribute: size, default: 1, max: 10}, ` + limit + `}]`, "ip", 0},
		{"never", `rules: [{name: a, key: [ip], limits: [0/1m]}]`, "ip", time.Hour},
		{"the looser of two", `rules: [{name: a, key: [ip], ` + limit + `}, {name: b, key: [ip, user], limits: [{rate: 1/1h, algorithm: fixed_window}]}]`, "ip", 50 * time.Second},
		{"permits", `rules: [{name: a, key: [ip], limits: [{concurrent: 1, ttl: 1m}]}]`, "ip", 0},
		{"denied requests count", `rules: [{name: a, key: [ip], count_denied: true, ` + limit + `}]`, "ip", 0},
		{"strikes", `rules: [{name: a, key: [ip], penalty: {after: 9, within: 1h, bans: [1h]}, ` + limit + `}]`, "ip", 0},
		{"ban", `rules: [{name: a, key: [ip], penalty: {after: 1, within: 1h, bans: [30m]}, ` + limit + `}]`, "ip", 30 * time.Minute},
		{"strikes of another rule", `rules: [{name: a, key: [ip], ` + limit + `}, {name: b, key: [user], penalty: {after: 9, within: 1h, bans: [1h]}, limits: [9/1m]}]`, "ip", 0},
		{"duplicates", `rules: [{name: a, key: [ip], dedup: {ttl: 1h}, ` + limit + `}]`, "ip", 0},
		{"corrected by the response", `rules: [{name: a, key: [ip], refund_if: status == 500, ` + limit + `}]`, "ip", 0},
		{"shadow rule", `rules: [{name: a, key: [ip], ` + limit + `}, {name: b, mode: shadow, key: [ip], limits: [9/1m]}]`, "ip", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, test.rules, engine.Options{Now: func() penstock.Instant { return clock }})
			call := penstock.Call{Cost: 1, Attributes: attributes("ip", "192.0.2.1", "path", "/x", "method", "GET", "host", "h", "user", "u1")}
			if test.by != "" {
				call.CacheBy = strings.Split(test.by, ",")
			}
			var v penstock.Verdict
			for range 2 {
				if err := e.Decide(t.Context(), &call, &v); err != nil {
					t.Fatal(err)
				}
				if v.Allowed && v.CacheFor != 0 {
					t.Fatalf("an allowed request can be cached: %+v", v)
				}
			}
			if v.Allowed || v.CacheFor != test.want {
				t.Errorf("allowed %v, %v: cached for %v, want %v", v.Allowed, v.Reason, v.CacheFor, test.want)
			}
		})
	}
}

func TestCacheForBlocked(t *testing.T) {
	clock := penstock.InstantOf(time.Date(2026, 11, 16, 3, 0, 0, 0, time.UTC))
	var blocks blocklist.List
	blocks.Set([]blocklist.Block{block("user", "u1", clock.Add(time.Minute).Time())})
	e := newEngine(t, blockRules, engine.Options{Blocks: &blocks, Now: func() penstock.Instant { return clock }})
	for by, want := range map[string]time.Duration{"user": time.Minute, "ip": 0} {
		call := penstock.Call{Cost: 1, Attributes: attributes("ip", "192.0.2.1", "user", "u1"), CacheBy: []string{by}}
		var v penstock.Verdict
		if err := e.Decide(t.Context(), &call, &v); err != nil || v.Reason != penstock.ReasonBlocked || v.CacheFor != want {
			t.Errorf("by %s: %+v, %v, want %v", by, v, err, want)
		}
	}
}
