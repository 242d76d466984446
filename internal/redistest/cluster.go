package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// formLimit bounds the wait for servers to agree, unless the caller's context ends sooner.
const formLimit = 2 * time.Minute

const slots = 16384

// Cluster is a Redis Cluster of masters with the slots distributed evenly in the order of Addrs.
type Cluster struct {
	Addrs    []string
	Nodes    []*Server // to kill, pause and restart; a restarted node rejoins its cluster
	Replicas []*Server // one for each of Nodes, or none
}

// LaunchCluster starts the masters and returns when each of them sees all of them and all slots. The
// context bounds the start only.
func LaunchCluster(ctx context.Context, masters int) (*Cluster, error) {
	if masters < 1 || masters > slots {
		return nil, fmt.Errorf("launch a cluster: masters must be from 1 to %d, got %d", slots, masters)
	}
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	c := &Cluster{}
	if err := c.form(ctx, masters, "--cluster-node-timeout", nodeTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("launch a cluster of %d masters: %w", masters, err), c.Close())
	}
	return c, nil
}

// StartCluster is LaunchCluster for a test, which closes the cluster when it ends.
func StartCluster(t testing.TB, masters int) *Cluster {
	t.Helper()
	child.SkipUnit(t)
	c, err := LaunchCluster(t.Context(), masters)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, c.Close)
	return c
}

// Close kills the nodes and removes their data.
func (c *Cluster) Close() error { return closeAll(slices.Concat(c.Replicas, c.Nodes)) }

func closeAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// nodeTimeout, in milliseconds, is when a silent node counts as dead, and the cluster with it. On a busy
// machine a node may get no CPU for seconds.
const nodeTimeout = "60000"

func (c *Cluster) form(ctx context.Context, masters int, args ...string) error {
	for i := range masters {
		s, err := Launch(ctx, append([]string{"--cluster-enabled", "yes"}, args...)...)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
		c.Addrs = append(c.Addrs, s.Addr)
		// ADDSLOTS and not ADDSLOTSRANGE: servers before 7.0 support only the former.
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		if _, err := command(ctx, s.Addr, add...); err != nil {
			return err
		}
		// Distinct epochs from the start save the nodes from resolving a conflict over which is newer.
		if _, err := command(ctx, s.Addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		// Each node meets all earlier ones. Gossip would find them too, but a second or so later.
		for _, earlier := range c.Nodes[:i] {
			if _, err := command(ctx, s.Addr, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(earlier.port)); err != nil {
				return err
			}
		}
	}
	return c.awaitAgreement(ctx)
}

// awaitAgreement waits until every node knows all of them.
func (c *Cluster) awaitAgreement(ctx context.Context) error {
	all := slices.Concat(c.Nodes, c.Replicas)
	for _, s := range all {
		if err := await(ctx, func() error { return inCluster(ctx, s.Addr, len(all), len(c.Nodes)) }); err != nil {
			return err
		}
	}
	return nil
}

// inCluster returns nil if the node at addr is part of a cluster of known nodes, knows all of them by name,
// and counts this many masters.
func inCluster(ctx context.Context, addr string, known, masters int) error {
	info, err := command(ctx, addr, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if err := hasLines(info, "cluster_state:ok", fmt.Sprint("cluster_known_nodes:", known), fmt.Sprint("cluster_size:", masters)); err != nil {
		return fmt.Errorf("CLUSTER INFO of %s: %w", addr, err)
	}
	nodes, err := command(ctx, addr, "CLUSTER", "NODES")
	if err != nil {
		return err
	}
	if strings.Contains(nodes, "handshake") {
		return fmt.Errorf("%s is still shaking hands", addr)
	}
	return nil
}

// hasLines returns an error that names the first of the wanted lines missing from text.
func hasLines(text string, wanted ...string) error {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' })
next:
	for _, want := range wanted {
		for _, line := range lines {
			if line == want {
				continue next
			}
		}
		return fmt.Errorf("no line %q", want)
	}
	return nil
}

// await polls until ready returns nil. If ctx ends first, it returns the last error of ready.
func await(ctx context.Context, ready func() error) error {
	for {
		complaint := ready()
		if complaint == nil {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%w; last: %w", err, complaint)
		}
	}
}
