package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

var clearText = assemble("clear")

// Announcements of resets and lifted bans are kept as long as any live node needs to ask for them, and at
// most as many as a node reads at once.
const (
	MaxClearings = 1_000
	clearingLife = time.Minute
)

// A ClearEvent says that a key was reset or its ban lifted. Nodes then forget what they knew of it before
// that instant.
type ClearEvent struct {
	Subject storage.Subject
	At      algorithm.Instant
	Lift    bool // only the ban
}

// announcement encodes a clearing: what was done, and to which subject.
func (c *ClearEvent) announcement() string {
	if c.Lift {
		return "l" + string(c.Subject[:])
	}
	return "r" + string(c.Subject[:])
}

func (s *Store) clearingsKey() string { return s.prefix + "{cleared}" }

// announce publishes a clearing to all nodes.
func (s *Store) announce(ctx context.Context, c ClearEvent) error {
	args := []string{strconv.FormatInt(int64(c.At), 10), c.announcement(), strconv.Itoa(MaxClearings), strconv.FormatInt(clearingLife.Microseconds(), 10)}
	client := s.conns.Load().pipelined
	_, err := s.do(ctx, client, client.B().Eval().Script(clearText).Numkeys(1).Key(s.clearingsKey()).Arg(args...).Build())
	if err != nil {
		return fmt.Errorf("done, but other nodes were not told: %w: %w", storage.ErrUnavailable, err)
	}
	return nil
}

// Clearings returns the resets and lifted bans of about the last minute, the oldest first. If there were
// more than MaxClearings, it returns the newest.
func (s *Store) Clearings(ctx context.Context) (all []ClearEvent, err error) {
	if err := s.checkConnected(); err != nil {
		return nil, err
	}
	client := s.conns.Load().pipelined
	reply, err := s.do(ctx, client, client.B().Zrangebyscore().Key(s.clearingsKey()).Min("-inf").Max("+inf").Withscores().Limit(0, MaxClearings).Build())
	if err != nil {
		return nil, replyError("read resets", err)
	}
	scores, err := reply.AsZScores()
	if err != nil {
		return nil, replyError("read resets", err)
	}
	for _, z := range scores {
		if len(z.Member) == 1+len(storage.Subject{}) && (z.Member[0] == 'l' || z.Member[0] == 'r') {
			all = append(all, ClearEvent{Subject: storage.Subject([]byte(z.Member[1:])), At: algorithm.Instant(z.Score), Lift: z.Member[0] == 'l'})
		}
	}
	return all, nil
}
