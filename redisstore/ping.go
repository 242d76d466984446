package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/redis/rueidis"
)

// Ping asks Redis to do what decisions need: to write. A server that cannot, as it is a replica or
// has no memory left, would answer PING all the same. On a cluster it asks some master, another one
// every time. It makes the connections that are not there, which decisions have less time for.
func (s *Store) Ping(ctx context.Context) error {
	key := s.prefix + "{ping" + strconv.Itoa(rand.IntN(slots)) + "}"
	for _, client := range []rueidis.Client{s.direct, s.pipelined} {
		set := client.B().Set().Key(key).Value("").PxMilliseconds(1000).Build()
		if _, err := s.do(ctx, client, set); err != nil {
			return fmt.Errorf("redis: ping: %w: %w", penstock.ErrUnavailable, err)
		}
	}
	return nil
}
