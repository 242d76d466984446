package faults

import (
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

// What the replica had not received when it became the master is lost: a greedy client may get its whole limit
// again.
var sentinelFaults = []fault{
	{name: "Sentinel fails over as told", lives: 2, arrange: onSentinel(func(s *faultStage, all *redistest.Sentinel) {
		s.eventuallyAsk(all.Addrs[0], "SENTINEL", "FAILOVER", redistest.MasterName)
	})},
	{name: "master killed under Sentinel", lives: 2, arrange: onSentinel(func(s *faultStage, all *redistest.Sentinel) {
		must(s.T, all.Servers[0].Kill())
	})},
	{name: "master stopped (SIGSTOP) under Sentinel", silent: true, lives: 2, arrange: onSentinel(func(s *faultStage, all *redistest.Sentinel) {
		must(s.T, all.Servers[0].Pause())
	})},
}

// onSentinel is a fault that ends when the replica is the master. The old one stays away.
func onSentinel(begin func(*faultStage, *redistest.Sentinel)) func(*testing.T) faultSetup {
	return func(t *testing.T) faultSetup {
		all := redistest.StartSentinel(t)
		must(t, all.Hurry())
		return faultSetup{
			store: onRedis("sentinel, master: "+redistest.MasterName, all.Addrs...),
			inject: func(s *faultStage) {
				begin(s, all)
				eventually(t, "the sentinels name the other master", func() bool {
					for _, addr := range all.Addrs {
						if now, err := redistest.CurrentMaster(addr); err != nil || now == all.Master {
							return false
						}
					}
					return true
				})
			},
		}
	}
}
