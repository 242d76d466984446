package server

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules/live"
)

// openHistory keeps the counts of requests: in the rules database or, without one, in a file in data_dir. Neither has
// to be available.
func (s *Server) openHistory(context.Context) error {
	database, ok := s.rules.origin.(*ruledb.Origin)
	if !ok {
		var err error
		if database, err = ruledb.NewOrigin("sqlite:"+s.config.InDataDir("history.db"), ruledb.Options{}); err != nil {
			return err
		}
		s.atEnd(func() { database.Close() })
	}
	self := s.members.All()[0]
	s.traffic.Mark(traffic.MarkStart, "version "+s.build.Version)
	s.history = trafficdb.Start(trafficdb.Options{
		Traffic: s.traffic, Database: database.DB, Node: self.ID, Name: self.Node.Name, Log: s.log,
	})
	s.atEnd(s.history.Close)
	return nil
}

// circuitChanged marks outages of the store in the history.
func (s *Server) circuitChanged(now breaker.State, cause error) {
	switch {
	case now == breaker.Closed && s.circuitOpen.Swap(false):
		s.traffic.Mark(traffic.MarkCircuitClosed, "")
	case now == breaker.Open && !s.circuitOpen.Swap(true):
		s.traffic.Mark(traffic.MarkCircuitOpen, string(redisstore.KindOf(cause)))
	}
}

// rulesText names rules in the history.
func rulesText(status live.Status) string {
	if status.Version > 0 {
		return fmt.Sprintf("version %d", status.Version)
	}
	return "checksum " + status.Checksum[:min(len(status.Checksum), shownChecksum)]
}
