package main

import (
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// As docs/redis.md says, every key expires but the published rules.
func TestAllKeysButRulesExpire(t *testing.T) {
	redis := redistest.Start(t)
	n := startNode(t, onRedis("single", redis.Addr)) // the demo's rules, in a database
	eventually(t, "Redis decides", func() bool { return n.check(`{"path": "/api/v1/chat", "fingerprint": "f"}`).Quality == "exact" })
	eventually(t, "rules are published", func() bool { return mustCommand(t, redis.Addr, "EXISTS", "pen:rules") == "1" })
	eventually(t, "the node is known", func() bool { return mustCommand(t, redis.Addr, "EXISTS", "pen:nodes") == "1" })
	const lasting = `local found = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			if redis.call('PTTL', key) == -1 then found[#found + 1] = key end
		end
		return table.concat(found, ' ')`
	if got := mustCommand(t, redis.Addr, "EVAL", lasting, "0"); got != "pen:rules" {
		t.Errorf("keys without a TTL: %q, want pen:rules alone", got)
	}
}
