package server

import (
	"context"

	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/nodebus"
)

// openFleet lets nodes that share a Redis ask each other for their traffic. With a store in memory, this is the only
// node.
func (s *Server) openFleet(context.Context) error {
	o := fleet.Options{Traffic: s.traffic, Members: s.members.All, History: s.history}
	if !s.config.HasRedis() {
		s.fleet = fleet.New(o)
		s.atEnd(s.fleet.Close)
		return nil
	}
	redis, err := s.config.Store.Redis.RuleOptions()
	if err != nil {
		return err
	}
	bus, err := nodebus.New(nodebus.Options{
		Redis: redis, Secret: s.rules.compile.Secret, ID: s.members.All()[0].ID, Changed: s.busChanged,
		Receive: func(from string, message []byte) { s.fleet.Receive(from, message) },
		Expects: func(from, number string) bool { return s.fleet.Expects(from, number) },
	})
	if err != nil {
		return err
	}
	o.Send, o.Problem = bus.Send, bus.Problem
	s.fleet = fleet.New(o)
	bus.Start()
	s.atEnd(bus.Close)
	s.atEnd(s.fleet.Close)
	return nil
}

// busChanged logs whether the numbers of other nodes can be had. Decisions do not depend on it.
func (s *Server) busChanged(err error) {
	switch {
	case err == nil:
		s.log.Debug("statistics of other nodes are available")
	case nodebus.IsForbidden(err):
		s.log.Info("the console shows only this node: the Redis user lacks permission",
			"next", "nothing if this is the only node; else grant the rights in docs/reference/redis.md", "error", err)
	default:
		s.log.Info("the console shows only this node until Redis can be reached", "error", err)
	}
}
