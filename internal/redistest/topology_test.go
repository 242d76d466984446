package redistest

import (
	"context"
	"fmt"
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
		if err := await(ctx, func() error { return inCluster(ctx, addr, 3) }); err != nil {
			t.Error(err)
		}
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
