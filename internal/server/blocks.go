package server

import (
	"context"

	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

// openBlocks follows the keys that operators have blocked: through the rules database and Redis, as far as they are
// configured, and from the last run.
func (s *Server) openBlocks(context.Context) error {
	o := blocks.Options{File: s.config.InDataDir("blocks.json"), Log: s.log}
	if s.rules.service != nil {
		o.Places = append(o.Places, &ruledb.Blocks{Origin: s.rules.service.Database})
	}
	if s.config.HasRedis() {
		options, err := s.config.Store.Redis.RuleOptions()
		if err != nil {
			return err
		}
		shared, err := ruleredis.NewBlocks(options, s.rules.compile.Secret)
		if err != nil {
			return err
		}
		s.atEnd(shared.Close)
		o.Places = append(o.Places, shared)
	}
	s.blocks = blocks.Open(o)
	s.atEnd(s.blocks.Close)
	return nil
}
