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

// Join discovers through Redis which nodes share the limits; in memory there is only this one. It sets the
// options' ID, Beat and Leave. forget is called for what was reset or lifted on any node.
func (s *Stack) Join(o membership.Options, forget func(of storage.Subject, onlyBan bool, before penstock.Instant)) (*membership.Members, error) {
	o.ID = rand.Text()
	if s.Redis != nil {
		o.Beat = func(ctx context.Context, about string) (int, []membership.Peer, error) {
			s.forgetCleared(ctx, forget)
			nodes, peers, err := s.beat(ctx, o.ID, about)
			if err == nil {
				s.checkMarks(ctx, o.ID)
			}
			return nodes, peers, err
		}
		o.Leave = func(ctx context.Context) error { return s.Redis.Leave(ctx, o.ID) }
	}
	return membership.Join(o)
}

// beat announces this node in Redis and reads the others.
func (s *Stack) beat(ctx context.Context, node, about string) (nodes int, peers []membership.Peer, err error) {
	nodes, alive, err := s.Redis.Beat(ctx, node, about, membership.Believed)
	for _, p := range alive {
		peers = append(peers, membership.Peer{ID: p.Name, About: p.About, Ago: p.Ago})
	}
	return nodes, peers, err
}

// forgetCleared forgets what was reset or lifted on any node. With every heartbeat it reads the resets of the
// last minute, so that a node misses nothing if some heartbeats fail. Forgetting again changes nothing.
func (s *Stack) forgetCleared(ctx context.Context, forget func(storage.Subject, bool, penstock.Instant)) {
	cleared, _ := s.Redis.Clearings(ctx) // if Redis fails, the heartbeat does too
	for _, c := range cleared {
		s.Denied.Forget(c.Subject)
		forget(c.Subject, c.Lift, c.At)
	}
}

// NodeName returns the host's name, with letters that distinguish several nodes on one host.
func NodeName() string {
	host, _ := os.Hostname() // without one it is "node"
	host, _, _ = strings.Cut(cmp.Or(host, "node"), ".")
	return membership.Word(host[:min(len(host), 48)] + "-" + strings.ToLower(rand.Text()[:4]))
}
