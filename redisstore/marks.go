package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

var markText = assemble("mark")

// marksKept is how long the marks of a node that is gone are kept.
const marksKept = 24 * time.Hour

// A MarkLoss says that a part of the servers has lost data that it had confirmed.
type MarkLoss struct {
	Zone    int  // see [Mode.Zones]
	Partial bool // the last writes are missing, as after a failover; otherwise everything is, as after FLUSHALL
}

// marks are the marks that the servers have confirmed.
type marks struct {
	mu    sync.Mutex
	zones map[int]int64 // the last one of each zone
}

// CheckMarks writes a mark of this node in each zone, and returns the zones whose marks are gone or older than what
// they have confirmed: they have lost counters, reservations and bans. The first call after a start finds nothing. It
// reports a loss once.
//
// With a policy that evicts keys without a TTL, a mark can be evicted although nothing else is lost. Policies by use
// keep marks that are written every few seconds; allkeys-random may not.
func (s *Store) CheckMarks(ctx context.Context, node string) (lost []MarkLoss, err error) {
	if node == "" || len(node) > MaxNodeName {
		return nil, fmt.Errorf("%w mark: a name of %d bytes, must be from 1 to %d", algorithm.ErrInvalid, len(node), MaxNodeName)
	}
	if err := s.checkConnected(); err != nil {
		return nil, err
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	if s.marks.zones == nil {
		s.marks.zones = map[int]int64{}
	}
	var errs []error
	for zone := range s.mode.Zones() {
		before, now, err := s.writeMark(ctx, zone, node)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if known := s.marks.zones[zone]; before < known {
			lost = append(lost, MarkLoss{Zone: zone, Partial: before != 0})
		}
		s.marks.zones[zone] = now
	}
	if len(errs) > 0 {
		err = fmt.Errorf("redis: marks: %w: %w", storage.ErrUnavailable, errs[0])
	}
	return lost, err
}

// writeMark returns the mark before, 0 if there was none, and the new one.
func (s *Store) writeMark(ctx context.Context, zone int, node string) (before, now int64, err error) {
	client := s.conns.Load().pipelined
	key := s.prefix + "{" + s.markTag(zone) + "}"
	reply, err := s.do(ctx, client, client.B().Eval().Script(markText).Numkeys(1).Key(key).Arg(node, strconv.FormatInt(marksKept.Milliseconds(), 10)).Build())
	if err != nil {
		return 0, 0, err
	}
	told, err := reply.AsStrSlice()
	if err == nil && len(told) != 2 {
		err = fmt.Errorf("an answer of %d parts", len(told))
	}
	if err != nil {
		return 0, 0, err
	}
	if told[0] != "" {
		var f float64
		if f, err = strconv.ParseFloat(told[0], 64); err != nil {
			return 0, 0, err
		}
		before = int64(f)
	}
	if now, err = strconv.ParseInt(told[1], 10, 64); err == nil && now <= 0 {
		err = errors.New("a mark that is not positive")
	}
	return before, now, err
}

// markTag returns a hash tag in a zone, always the same one.
func (s *Store) markTag(zone int) string {
	for i := 0; ; i++ {
		tag := "marks" + strconv.Itoa(i)
		if s.mode.zoneAt(slotOfTag([]byte(tag))) == zone {
			return tag
		}
	}
}
