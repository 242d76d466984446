package doctor

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// examineEviction looks whether the server may forget counters.
func (d *doctor) examineEviction(ctx context.Context, s *redisServer) {
	r := &d.report
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
		r.unseen("eviction", "as another user: redis-cli CONFIG GET maxmemory-policy must say noeviction, or the limits of spent callers begin anew when memory is short",
			"the user may not ask for maxmemory-policy")
		return
	case policy == "noeviction":
		r.well("eviction", "noeviction: when memory is short, calls fail and rules decide by their on_store_error")
	case !bounded:
		r.look("eviction", fix, "maxmemory-policy is %s, without effect as long as maxmemory is not set", policy)
	default:
		r.wrong("eviction", fix, "maxmemory-policy is %s: when memory is short the server forgets counters and bans, and those callers' limits begin anew; whoever makes many keys can make it so", policy)
	}
	if stats, err := s.info(ctx, "stats"); err == nil && stats["evicted_keys"] != "0" && stats["evicted_keys"] != "" {
		r.look("eviction", fix, "%s keys were evicted since the server started: their clients got a fresh limit", stats["evicted_keys"])
	}
	limit, _ := strconv.ParseFloat(most, 64)
	if now, _ := strconv.ParseFloat(used, 64); bounded && now > 0.8*limit {
		r.look("memory", "more memory, or fewer keys", "%.0f %% of maxmemory is in use", 100*now/limit)
	}
}

// longWindow is from when on forgetting a counter is worth a word.
const longWindow = time.Hour

// examinePersistence looks what a restart of the server would forget.
func (d *doctor) examinePersistence(ctx context.Context, s *redisServer, found *rules.Snapshot) {
	r := &d.report
	appended, err := s.setting(ctx, "appendonly")
	saved, saveErr := s.setting(ctx, "save")
	const keep = "appendonly yes and appendfsync everysec, if that matters"
	switch {
	case err != nil || saveErr != nil:
		r.unseen("persistence", "as another user: redis-cli CONFIG GET appendonly; without it a restart forgets all limits and bans",
			"the user may not ask whether state is kept over a restart")
	case appended == "yes":
		r.well("persistence", "appendonly: a restart forgets at most the last second or so")
	case saved != "":
		r.look("persistence", keep, "snapshots (save %s): a restart forgets what came after the last one, and so lets that much pass again", saved)
	case forgetsMuch(found):
		r.look("persistence", keep, "none: a restart forgets every counter and ban, and some rules count for an hour or longer, or ban")
	default:
		r.well("persistence", "none: a restart forgets every counter; no rule counts for an hour or bans")
	}
}

// forgetsMuch tells rules for which a lost state matters for long.
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
