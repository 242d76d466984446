package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/traffic"
)

// joinNodes learns which nodes there are from Redis, while it is there. In memory there is this one.
func (s *server) joinNodes(context.Context) (err error) {
	id := rand.Text()
	say := &nodeReport{server: s, name: cmp.Or(s.config.NodeName, nameByHost()), at: s.started}
	o := membership.Options{ID: id, Self: say.now, Failed: func(err error) { s.log.Warn("the number of nodes", "error", err) }}
	if late := s.store.Redis; late != nil {
		o.Beat = func(ctx context.Context, about string) (int, []membership.Peer, error) {
			s.forgetCleared(ctx)
			return late.Beat(ctx, id, about)
		}
		o.Leave = func(ctx context.Context) error { return late.Leave(ctx, id) }
		if s.config.Nodes == 0 {
			o.File = filepath.Join(s.config.DataDir, "nodes.last-seen")
		}
	}
	if s.members, err = membership.Join(o); err != nil {
		return err
	}
	s.atEnd(s.members.Close)
	if s.config.Nodes == 0 {
		s.store.nodes = s.members.Nodes
	}
	return nil
}

// forgetCleared forgets what was reset or lifted on any node. It asks with every beat for what happened
// in the last minute, so that a node misses nothing if some of its beats fail. Forgetting it again
// changes nothing.
func (s *server) forgetCleared(ctx context.Context) {
	e := s.engine.Load()
	if e == nil {
		return
	}
	cleared, _ := s.store.Redis.Clearings(ctx) // if Redis fails, the beat does too
	for _, c := range cleared {
		e.Forget(c.Subject, c.Lift, c.At)
	}
}

// nameByHost is the host's name, and letters that tell several nodes of one host apart.
func nameByHost() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	host, _, _ = strings.Cut(host, ".")
	return membership.Word(host[:min(len(host), 48)] + "-" + strings.ToLower(rand.Text()[:4]))
}

// A nodeReport is what this node says of itself.
type nodeReport struct {
	*server
	name string

	at    time.Time // when it was last asked, and what had been decided then
	calls traffic.Counts
}

// shownChecksum is how much of a checksum tells rules apart.
const shownChecksum = 16

// now tells what is, and what has been since it was asked before.
func (r *nodeReport) now() membership.Node {
	totals, at, rules := r.traffic.Totals(), time.Now(), r.rules.live.Status()
	calls, before, seconds := totals.Counts(), r.calls, at.Sub(r.at).Seconds()
	r.at, r.calls = at, calls
	n := membership.Node{
		Name: r.name, Version: thisBuild().Version, Started: r.started.Truncate(time.Second),
		Rules: rules.Version, Checksum: rules.Checksum[:min(len(rules.Checksum), shownChecksum)], Quality: membership.Exact,
	}
	if seconds > 0 {
		n.Calls = float64(calls.Allowed+calls.Denied-before.Allowed-before.Denied) / seconds
		n.Denied = float64(calls.Denied-before.Denied) / seconds
	}
	if calls.Degraded > before.Degraded || !r.store.status().Connected {
		n.Quality = membership.Degraded
	}
	return n
}
