package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
)

// LaunchReplicatedCluster starts this many masters, each with a replica that takes over if it fails, with
// additional redis-server arguments, e.g. "--cluster-node-timeout", "2000". It returns when all know each
// other and every replica follows its master. The context bounds the start only.
func LaunchReplicatedCluster(ctx context.Context, masters int, args ...string) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	c := &Cluster{}
	// A master delays the first sync to wait for more replicas. Without the delay it starts at once.
	args = append([]string{"--repl-diskless-sync-delay", "0", "--cluster-node-timeout", nodeTimeout}, args...)
	err := c.form(ctx, masters, args...)
	if err == nil {
		err = c.replicate(ctx, args...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("launch a cluster of %d masters with replicas: %w", masters, err), c.Close())
	}
	return c, nil
}

// StartReplicatedCluster is LaunchReplicatedCluster for a test, which closes the cluster when it ends.
func StartReplicatedCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	child.SkipUnit(t)
	c, err := LaunchReplicatedCluster(t.Context(), masters, args...)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, c.Close)
	return c
}

// replicate gives every master a replica.
func (c *Cluster) replicate(ctx context.Context, args ...string) error {
	for range c.Nodes {
		s, err := Launch(ctx, append([]string{"--cluster-enabled", "yes"}, args...)...)
		if err != nil {
			return err
		}
		c.Replicas = append(c.Replicas, s)
		for _, master := range c.Nodes {
			if _, err := command(ctx, s.Addr, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(master.port)); err != nil {
				return err
			}
		}
	}
	if err := c.awaitAgreement(ctx); err != nil {
		return err
	}
	for i, s := range c.Replicas {
		master, err := command(ctx, c.Nodes[i].Addr, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := command(ctx, s.Addr, "CLUSTER", "REPLICATE", master); err != nil {
			return err
		}
	}
	for i, s := range c.Replicas {
		if err := await(ctx, func() error { return follows(ctx, s.Addr, c.Nodes[i].Addr) }); err != nil {
			return err
		}
	}
	return nil
}
