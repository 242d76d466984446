package faults

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

var clusterFaults = []fault{
	{name: "cluster: CLUSTER FAILOVER", lives: 1, arrange: onCluster(failOver)},
	{name: "cluster: a master killed, its replica takes over", lives: 2, arrange: onCluster(func(s *faultStage, all *redistest.Cluster) {
		must(s.T, all.Nodes[0].Kill())
		s.awaitMaster(all.Replicas[0].Addr)
	})},
	{name: "cluster: a master stopped (SIGSTOP), its replica takes over", silent: true, lives: 2, arrange: onCluster(func(s *faultStage, all *redistest.Cluster) {
		must(s.T, all.Nodes[0].Pause())
		s.awaitMaster(all.Replicas[0].Addr)
	})},
	{name: "cluster: a master stopped (SIGSTOP) for a while", silent: true, lives: 1, arrange: onCluster(func(s *faultStage, all *redistest.Cluster) {
		must(s.T, all.Nodes[0].Pause())
		s.hold()
		must(s.T, all.Nodes[0].Resume())
	}, "--cluster-node-timeout", "30000")},
	{name: "cluster: a master and its replica killed, the others serve on", lives: 2, arrange: onCluster(func(s *faultStage, all *redistest.Cluster) {
		must(s.T, all.Replicas[0].Kill())
		must(s.T, all.Nodes[0].Kill())
		s.hold()
		must(s.T, all.Nodes[0].Restart())
		s.awaitCluster(all.Nodes...)
	}, "--cluster-require-full-coverage", "no")},
	{name: "cluster: a master and its replica killed, the others serve nobody", lives: 2, arrange: onCluster(func(s *faultStage, all *redistest.Cluster) {
		must(s.T, all.Replicas[0].Kill())
		must(s.T, all.Nodes[0].Kill())
		s.hold()
		must(s.T, all.Nodes[0].Restart())
		s.awaitCluster(all.Nodes...)
	})},
	{name: "cluster: slots move to another master (MOVED, ASK)", lives: 1, arrange: onCluster(reshard)},
}

// onCluster is a fault of three masters with a replica each, where nodes give each other up after a
// second unless args say otherwise.
func onCluster(inject func(*faultStage, *redistest.Cluster), args ...string) func(*testing.T) faultSetup {
	return func(t *testing.T) faultSetup {
		all := redistest.StartReplicatedCluster(t, 3, append([]string{"--cluster-node-timeout", "1000"}, args...)...)
		return faultSetup{store: onRedis("cluster", all.Addrs...), inject: func(s *faultStage) { inject(s, all) }}
	}
}

// failOver makes a replica the master, which waits for it to have all that the old one knows.
func failOver(s *faultStage, all *redistest.Cluster) {
	s.ask(all.Replicas[0].Addr, "CLUSTER", "FAILOVER")
	s.awaitMaster(all.Replicas[0].Addr)
}

// awaitMaster waits until a former replica decides.
func (s *faultStage) awaitMaster(addr string) {
	s.Helper()
	eventually(s.T, "the replica has taken over", func() bool {
		role, err := redistest.Command(addr, "ROLE")
		return err == nil && strings.HasPrefix(role, "master") && s.clusterIsWhole(addr)
	})
}

func (s *faultStage) awaitCluster(nodes ...*redistest.Server) {
	s.Helper()
	for _, n := range nodes {
		eventually(s.T, "the cluster is whole again", func() bool { return s.clusterIsWhole(n.Addr) })
	}
}

func (s *faultStage) clusterIsWhole(addr string) bool {
	info, err := redistest.Command(addr, "CLUSTER", "INFO")
	return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384")
}

// reshard moves the first slots with keys, as redis-cli does: clients that ask the old master for a key are
// redirected.
func reshard(s *faultStage, all *redistest.Cluster) {
	const most = 60
	from, to := all.Nodes[0].Addr, all.Nodes[1].Addr
	fromID, toID := s.ask(from, "CLUSTER", "MYID"), s.ask(to, "CLUSTER", "MYID")
	moved := 0
	for slot := 0; slot < 16384/3 && moved < most; slot++ {
		name := fmt.Sprint(slot)
		if s.ask(from, "CLUSTER", "COUNTKEYSINSLOT", name) == "0" {
			continue
		}
		s.ask(to, "CLUSTER", "SETSLOT", name, "IMPORTING", fromID)
		s.ask(from, "CLUSTER", "SETSLOT", name, "MIGRATING", toID)
		s.migrate(from, to, name)
		s.ask(to, "CLUSTER", "SETSLOT", name, "NODE", toID)
		s.ask(from, "CLUSTER", "SETSLOT", name, "NODE", toID)
		moved++
	}
	if moved == 0 {
		s.Error("no slot had keys to move")
	}
}

// migrate moves the keys of a slot, one at a time.
func (s *faultStage) migrate(from, to, slot string) {
	host, port, err := net.SplitHostPort(to)
	must(s.T, err)
	for {
		key := s.ask(from, "CLUSTER", "GETKEYSINSLOT", slot, "1")
		if key == "" {
			return
		}
		s.ask(from, "MIGRATE", host, port, key, "0", "5000")
	}
}
