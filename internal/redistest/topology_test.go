package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	if len(c.Addrs) != 3 {
		t.Fatalf("addresses: %v", c.Addrs)
	}
	owners := map[string]bool{}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		for _, addr := range c.Addrs {
			_, err := Command(addr, "SET", key, "v")
			switch {
			case err == nil:
				owners[addr] = true
			case !strings.Contains(err.Error(), "MOVED"):
				t.Errorf("%s at %s: %v", key, addr, err)
			}
		}
	}
	if len(owners) != 3 {
		t.Errorf("30 keys live on %v, want all three masters", owners)
	}
}

func TestRestartedNodeRejoinsItsCluster(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	if err := c.Nodes[1].Restart(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), formLimit)
	defer cancel()
	for _, addr := range c.Addrs {
		if err := await(ctx, func() error { return inCluster(ctx, addr, 3, 3) }); err != nil {
			t.Error(err)
		}
	}
}

// A replica has its master's data, and takes over when it is told to.
func TestReplicaTakesOver(t *testing.T) {
	t.Parallel()
	// A factor of 0: however long the failure takes to notice, the replica's data is not too old for a
	// failover.
	c := StartReplicatedCluster(t, 3, "--cluster-node-timeout", nodeTimeout, "--cluster-replica-validity-factor", "0")
	owner := -1
	for i, n := range c.Nodes {
		if _, err := Command(n.Addr, "SET", "key", "v"); err == nil {
			owner = i
		}
	}
	if owner < 0 {
		t.Fatal("no master took the key")
	}
	ctx, cancel := context.WithTimeout(t.Context(), formLimit)
	defer cancel()
	replica := c.Replicas[owner].Addr
	has := func(want string, args ...string) error {
		reply, err := command(ctx, replica, args...)
		if err == nil && !strings.Contains(reply, want) {
			err = fmt.Errorf("%v: got %q, want %q in it", args, reply, want)
		}
		return err
	}
	if err := await(ctx, func() error { return has("1", "DBSIZE") }); err != nil {
		t.Fatal(err)
	}
	if _, err := command(ctx, replica, "CLUSTER", "FAILOVER", "TAKEOVER"); err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Concat(c.Nodes, c.Replicas) {
		if s != c.Nodes[owner] { // only now: a master that gets no CPU for a second is not gone
			mustCommand(t, s.Addr, "CONFIG", "SET", "cluster-node-timeout", "1000")
		}
	}
	if err := await(ctx, func() error { return has("v", "GET", "key") }); err != nil {
		t.Error(err)
	}
}

func TestClusterNeedsAMaster(t *testing.T) {
	t.Parallel()
	if c, err := LaunchCluster(t.Context(), 0); err == nil {
		c.Close()
		t.Error("a cluster of none was launched")
	}
}

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	if len(s.Addrs) != sentinels {
		t.Fatalf("sentinels: %v", s.Addrs)
	}
	for _, addr := range s.Addrs {
		if master, err := CurrentMaster(addr); err != nil || master != s.Master {
			t.Errorf("the sentinel at %s names %q, %v; want %s", addr, master, err, s.Master)
		}
	}
	if err := s.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Hurry(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), formLimit)
	defer cancel()
	for _, addr := range s.Addrs {
		err := await(ctx, func() error {
			master, err := CurrentMaster(addr)
			if err == nil && master != s.Servers[1].Addr {
				err = fmt.Errorf("the sentinel at %s names %s, want the replica %s", addr, master, s.Servers[1].Addr)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mustCommand(t, s.Servers[1].Addr, "SET", "k", "v")
}
