package doctor

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// examineEviction checks whether the server may evict counters.
func (d *doctor) examineEviction(ctx context.Context, s *redisServer) {
	memory, err := s.info(ctx, "memory")
	policy, most, used := memory["maxmemory_policy"], memory["maxmemory"], memory["used_memory"]
	if err != nil || policy == "" {
		policy, err = s.setting(ctx, "maxmemory-policy")
		most, _ = s.setting(ctx, "maxmemory")
	}
	const fix = "CONFIG SET maxmemory-policy noeviction, the same in redis.conf, and memory enough"
	bounded := most != "" && most != "0"
	switch {
	case err != nil:
		d.unknown("eviction", "as another user: redis-cli CONFIG GET maxmemory-policy must say noeviction, or exhausted clients get a fresh limit when memory runs out",
			"the Redis user may not read maxmemory-policy")
		return
	case policy == "noeviction":
		d.ok("eviction", "noeviction: when memory runs out, writes fail and on_store_error decides")
	case !bounded:
		d.warn("eviction", fix, "maxmemory-policy is %s, without effect while maxmemory is not set", policy)
	default:
		d.fail("eviction", fix, "maxmemory-policy is %s: when memory runs out, Redis evicts counters and bans, and those clients get a fresh limit; a client that creates many keys can force it", policy)
	}
	if stats, err := s.info(ctx, "stats"); err == nil && stats["evicted_keys"] != "0" && stats["evicted_keys"] != "" {
		d.warn("eviction", fix, "%s keys were evicted since the server started: their clients got a fresh limit", stats["evicted_keys"])
	}
	limit, _ := strconv.ParseFloat(most, 64)
	if now, _ := strconv.ParseFloat(used, 64); bounded && now > 0.8*limit {
		d.warn("memory", "add memory, or reduce the number of keys", "%.0f %% of maxmemory is in use", 100*now/limit)
	}
}

// longWindow is the window from which on losing a counter deserves a warning.
const longWindow = time.Hour

// examinePersistence checks what a restart of the server would lose.
func (d *doctor) examinePersistence(ctx context.Context, s *redisServer, found *rules.Snapshot) {
	appended, err := s.setting(ctx, "appendonly")
	saved, saveErr := s.setting(ctx, "save")
	const keep = "appendonly yes and appendfsync everysec, if that matters"
	switch {
	case err != nil || saveErr != nil:
		d.unknown("persistence", "as another user: redis-cli CONFIG GET appendonly; without it a restart loses all counters and bans",
			"the Redis user may not read whether state survives a restart")
	case appended == "yes":
		d.ok("persistence", "appendonly: a restart loses at most about a second")
	case saved != "":
		d.warn("persistence", keep, "snapshots (save %s): a restart loses what came after the last one, and admits as much again", saved)
	case forgetsMuch(found):
		d.warn("persistence", keep, "none: a restart loses all counters and bans, and some rules count for an hour or longer, or ban")
	default:
		d.ok("persistence", "none: a restart loses all counters; no rule counts for an hour or bans")
	}
}

// forgetsMuch reports whether lost state would matter for long under these rules.
func forgetsMuch(found *rules.Snapshot) bool {
	if found == nil {
		return false
	}
	for _, rule := range found.Rules {
		if rule.Penalty != nil || slices.ContainsFunc(rule.Limits, func(m *algorithm.Meter) bool {
			return m.Kind != algorithm.KindLeases && time.Duration(m.Window)*time.Microsecond >= longWindow
		}) {
			return true
		}
	}
	return false
}
