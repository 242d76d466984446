package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Ping asks Redis to do what decisions need: a write. A server that cannot write, because it is a replica
// or out of memory, would still answer PING. On a cluster it asks a random master each time. It also makes
// missing connections, for which decisions have less time: all of them, if there are none yet.
func (s *Store) Ping(ctx context.Context) error { return s.PingZone(ctx, rand.IntN(s.mode.Zones())) }

// PingZone is Ping for a zone, see [Mode.Zones]. It uses a different slot of the zone each time.
func (s *Store) PingZone(ctx context.Context, zone int) error {
	if zone < 0 || zone >= s.mode.Zones() {
		return fmt.Errorf("redis: ping: %w: zone %d, must be from 0 to %d", algorithm.ErrInvalid, zone, s.mode.Zones()-1)
	}
	if err := s.connect(); err != nil {
		return err
	}
	key, conn := s.prefix+"{"+s.tagIn(zone)+"}", s.conns.Load()
	var all errgroup.Group // concurrently: each may first have to detect that its connection is lost
	for _, client := range slices.Compact([]rueidis.Client{conn.direct, conn.pipelined}) {
		all.Go(func() error {
			_, err := s.do(ctx, client, client.B().Set().Key(key).Value("").PxMilliseconds(1000).Build())
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("redis: ping: %w: %w", storage.ErrUnavailable, err)
	}
	return nil
}

// tagIn returns a hash tag in a random slot of the zone.
func (s *Store) tagIn(zone int) string {
	for {
		tag := "ping" + strconv.Itoa(rand.IntN(slots))
		if s.mode.zoneAt(slotOfTag([]byte(tag))) == zone {
			return tag
		}
	}
}
