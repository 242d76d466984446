package stack

import (
	"context"

	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/ruleredis"
	"github.com/penstock-io/penstock/redisstore"
)

// blocksOrigin is an origin of rules that also has the keys that operators have blocked: a rules database.
type blocksOrigin interface {
	Blocks() blocks.Place
}

// openBlocks follows the keys that operators have blocked, in Redis and in the rules database, as far as they are
// configured. It does not wait for them.
func (s *Stack) openBlocks(context.Context) error {
	o := blocks.Options{Log: s.config.Log}
	if origin, ok := s.config.Origin.(blocksOrigin); ok {
		o.Places = append(o.Places, origin.Blocks())
	}
	if r := &s.config.Redis; len(r.Addresses) > 0 {
		shared, err := ruleredis.NewBlocks(ruleredis.Options{
			Addresses: r.Addresses, Master: r.Master, Cluster: r.Mode == redisstore.Cluster,
			Username: r.Username, Password: r.Password, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
			TLS: r.TLS, KeyPrefix: r.KeyPrefix,
		}, s.config.Secret)
		if err != nil {
			return err
		}
		s.closeBlocks = shared.Close
		o.Places = append(o.Places, shared)
	}
	s.blocks = blocks.Open(o)
	return nil
}
