package storestack

import (
	"context"
	"sync"
	"time"
)

// Losses are how often Redis has lost data that it had confirmed.
type Losses struct {
	Times int64
	Last  time.Time // zero: never
}

type losses struct {
	mu sync.Mutex
	Losses
}

// Losses returns how often Redis has lost data since the start.
func (s *Stack) Losses() Losses {
	s.losses.mu.Lock()
	defer s.losses.mu.Unlock()
	return s.losses.Losses
}

// checkMarks looks whether Redis still has what it has confirmed. Nothing else would tell: after FLUSHALL, or a
// failover to a replica that lacks the last writes, Redis answers as before, and clients that were denied or banned
// pass.
func (s *Stack) checkMarks(ctx context.Context, node string) {
	lost, _ := s.Redis.CheckMarks(ctx, node) // if Redis fails, requests notice
	if len(lost) == 0 {
		return
	}
	what := "the last writes"
	for _, l := range lost {
		if !l.Partial {
			what = "everything"
		}
	}
	s.losses.mu.Lock()
	s.losses.Times++
	s.losses.Last = time.Now()
	s.losses.mu.Unlock()
	s.log.Error("Redis has lost data: counters, bans and reservations start from zero",
		"lost", what, "zones", len(lost),
		"next", "look for FLUSHALL, for a failover and for a restart without persistence; with maxmemory-policy allkeys-random, also for evictions")
}
