package server

import (
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// As docs/reference/redis.md says, every key expires except the published rules and the marks.
func TestAllKeysButRulesExpire(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := startNode(t, nodetest.OnRedis("single", redis.Addr)) // the demo's rules, in a database
	nodetest.Eventually(t, "Redis connected", func() bool { return n.check(`{"path": "/api/v1/chat", "fingerprint": "f"}`).Quality == "exact" })
	nodetest.Eventually(t, "rules are published", func() bool { return nodetest.RedisCommand(t, redis.Addr, "EXISTS", "pen:rules") == "1" })
	nodetest.Eventually(t, "the node is known", func() bool { return nodetest.RedisCommand(t, redis.Addr, "EXISTS", "pen:nodes") == "1" })
	nodetest.Eventually(t, "the node has a mark", func() bool { return nodetest.RedisCommand(t, redis.Addr, "EXISTS", "pen:{marks0}") == "1" })
	const lasting = `local found = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			if redis.call('PTTL', key) == -1 then found[#found + 1] = key end
		end
		table.sort(found)
		return table.concat(found, ' ')`
	if got := nodetest.RedisCommand(t, redis.Addr, "EVAL", lasting, "0"); got != "pen:rules pen:{marks0}" {
		t.Errorf("keys without a TTL: %q, want pen:rules and pen:{marks0} alone", got)
	}
}
