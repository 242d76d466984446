package race

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// network is the nodes, each with its own connection of the same delay to the same server.
type network struct {
	roundTrip time.Duration // added; 0 means no proxy at all
	nodes     []Node
	proxies   []*DelayProxy
}

func openNetwork(addr string, nodes int, roundTrip time.Duration) (*network, error) {
	n := &network{roundTrip: roundTrip}
	for range nodes {
		if err := n.addNode(addr); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

func (n *network) addNode(addr string) error {
	if n.roundTrip > 0 {
		p, err := NewDelayProxy(addr, n.roundTrip)
		if err != nil {
			return err
		}
		n.proxies = append(n.proxies, p)
		addr = p.Addr()
	}
	client, err := dial(addr)
	if err != nil {
		return fmt.Errorf("connect to Redis at %s: %w", addr, err)
	}
	n.nodes = append(n.nodes, Node{Addr: addr, Client: client})
	return nil
}

// dial opens one pipelined connection, without cache and without retries, because a charge that is sent again
// counts twice.
func dial(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		DisableCache:      true,
		DisableRetry:      true,
		ForceSingleClient: true,
		PipelineMultiplex: -1, // one connection, where the default depends on the machine
	})
}

func (n *network) close() error {
	for _, node := range n.nodes {
		node.Client.Close()
	}
	var err error
	for _, p := range n.proxies {
		err = errors.Join(err, p.Close())
	}
	return err
}

// measure returns the median of idle round trips: the actual delay, including server and loopback.
func (n *network) measure(ctx context.Context) (time.Duration, error) {
	const pings = 51
	c := n.nodes[0].Client
	took := make([]time.Duration, 0, pings)
	for range pings {
		start := time.Now()
		if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
			return 0, fmt.Errorf("ping over %v of added round trip: %w", n.roundTrip, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return quantile(took, 0.5), nil
}
