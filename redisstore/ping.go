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

// Ping asks Redis to do what decisions need: to write. A server that cannot, as it is a replica or
// has no memory left, would answer PING all the same. On a cluster it asks some master, another one
// every time. It makes the connections that are not there, which decisions have less time for: all of
// them, if there are none yet.
func (s *Store) Ping(ctx context.Context) error { return s.PingZone(ctx, rand.IntN(s.mode.Zones())) }

// PingZone is Ping for a zone, see [Mode.Zones]: for another slot of it every time.
func (s *Store) PingZone(ctx context.Context, zone int) error {
	if zone < 0 || zone >= s.mode.Zones() {
		return fmt.Errorf("redis: ping: %w: zone %d, must be from 0 to %d", algorithm.ErrInvalid, zone, s.mode.Zones()-1)
	}
	if err := s.connect(); err != nil {
		return err
	}
	key, conn := s.prefix+"{"+s.tagIn(zone)+"}", s.conns.Load()
	var all errgroup.Group // at the same time: each may have to find out that its connection is lost
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

// tagIn is a hash tag in some slot of the zone.
func (s *Store) tagIn(zone int) string {
	for {
		tag := "ping" + strconv.Itoa(rand.IntN(slots))
		if s.mode.zoneAt(slotOfTag([]byte(tag))) == zone {
			return tag
		}
	}
}
