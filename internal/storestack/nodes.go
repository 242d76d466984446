package storestack

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/storage"
)

// Join learns through Redis which nodes share the limits; in memory there is this one. The options' ID, Beat
// and Leave are set here. forget is told what was reset or lifted on any node.
func (s *Stack) Join(o membership.Options, forget func(of storage.Subject, onlyBan bool, before penstock.Instant)) (*membership.Members, error) {
	o.ID = rand.Text()
	if s.Redis != nil {
		o.Beat = func(ctx context.Context, about string) (int, []membership.Peer, error) {
			s.forgetCleared(ctx, forget)
			return s.beat(ctx, o.ID, about)
		}
		o.Leave = func(ctx context.Context) error { return s.Redis.Leave(ctx, o.ID) }
	}
	return membership.Join(o)
}

// beat tells Redis of this node and asks it for the others.
func (s *Stack) beat(ctx context.Context, node, about string) (nodes int, peers []membership.Peer, err error) {
	nodes, alive, err := s.Redis.Beat(ctx, node, about, membership.Believed)
	for _, p := range alive {
		peers = append(peers, membership.Peer{ID: p.Name, About: p.About, Ago: p.Ago})
	}
	return nodes, peers, err
}

// forgetCleared forgets what was reset or lifted on any node. It asks with every beat for what happened
// in the last minute, so that a node misses nothing if some of its beats fail. Forgetting it again
// changes nothing.
func (s *Stack) forgetCleared(ctx context.Context, forget func(storage.Subject, bool, penstock.Instant)) {
	cleared, _ := s.Redis.Clearings(ctx) // if Redis fails, the beat does too
	for _, c := range cleared {
		forget(c.Subject, c.Lift, c.At)
	}
}

// NodeName is the host's name, and letters that tell several nodes of one host apart.
func NodeName() string {
	host, _ := os.Hostname() // without one it is "node"
	host, _, _ = strings.Cut(cmp.Or(host, "node"), ".")
	return membership.Word(host[:min(len(host), 48)] + "-" + strings.ToLower(rand.Text()[:4]))
}
