package server

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/storage"
)

// joinNodes learns from Redis which nodes exist, while Redis is available. With a store in memory, this is the
// only node.
func (s *Server) joinNodes(context.Context) (err error) {
	say := &nodeReport{Server: s, name: cmp.Or(s.config.NodeName, storestack.NodeName()), at: s.started}
	o := membership.Options{Self: say.now, Interval: s.intervals.heartbeat, Failed: func(err error) { s.log.Warn("cannot exchange node information", "error", err) }}
	if s.config.HasRedis() && s.config.Nodes == 0 {
		o.File = filepath.Join(s.config.DataDir, "nodes.last-seen")
	}
	s.members, err = s.store.Join(o, func(of storage.Subject, onlyBan bool, before penstock.Instant) {
		if e := s.engine.Load(); e != nil {
			e.Forget(of, onlyBan, before)
		}
	})
	if err != nil {
		return err
	}
	s.atEnd(s.members.Close)
	if s.config.Nodes == 0 {
		s.store.nodes = s.members.Nodes
	}
	return nil
}

// A nodeReport is the status that this node reports.
type nodeReport struct {
	*Server
	name string

	at    time.Time // time of the last report, and the number of decisions then
	calls traffic.Counts
}

// shownChecksum is the length of a checksum prefix that distinguishes rules.
const shownChecksum = 16

// now returns the current status, with rates since the last report.
func (r *nodeReport) now() membership.Node {
	totals, at, rules := r.traffic.Totals(), time.Now(), r.rules.live.Status()
	calls, before, seconds := totals.Counts(), r.calls, at.Sub(r.at).Seconds()
	r.at, r.calls = at, calls
	n := membership.Node{
		Name: r.name, Version: r.build.Version, Started: r.started.Truncate(time.Second),
		Rules: rules.Version, Checksum: rules.Checksum[:min(len(rules.Checksum), shownChecksum)], Quality: membership.Exact,
	}
	if seconds > 0 {
		n.Calls = float64(calls.Allowed+calls.Denied-before.Allowed-before.Denied) / seconds
		n.Denied = float64(calls.Denied-before.Denied) / seconds
	}
	if calls.Degraded > before.Degraded || !r.store.isConnected() {
		n.Quality = membership.Degraded
	}
	return n
}
