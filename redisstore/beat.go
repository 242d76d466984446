package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

var beatText = assemble("beat")

// Bounds of beats, in bytes and in nodes.
const (
	MaxNodeName  = 64
	MaxNodeAbout = 512 // of what a node says of itself
	MaxPeers     = 200 // that are told; all of them count
)

// A Peer is a node that was heard of lately. All of it is what others have written: it has bounds, and
// no other promises.
type Peer struct {
	Name  string
	About string        // what it says of itself; "": nothing, as a version that has nothing to say
	Ago   time.Duration // since it was heard of
}

// Beat says that a node is alive and what there is to know about it, and returns how many are: those
// that have beaten within the time, in whole seconds, by the server's clock. Names that a wrong clock
// has written far ahead are dropped. The peers are those of them that were heard of last, this node
// among them.
func (s *Store) Beat(ctx context.Context, node, about string, within time.Duration) (nodes int, peers []Peer, err error) {
	if node == "" || len(node) > MaxNodeName || len(about) > MaxNodeAbout || within < time.Second {
		return 0, nil, fmt.Errorf("%w beat: a name of %d bytes, must be from 1 to %d; about it %d bytes, must be at most %d; within %v, must be at least 1s",
			algorithm.ErrInvalid, len(node), MaxNodeName, len(about), MaxNodeAbout, within)
	}
	if err := s.checkConnected(); err != nil {
		return 0, nil, err
	}
	client := s.conns.Load().pipelined
	names, abouts := s.beatKeys()
	args := []string{node, strconv.Itoa(int(within / time.Second)), about, strconv.Itoa(MaxPeers), strconv.Itoa(MaxNodeName), strconv.Itoa(MaxNodeAbout)}
	reply, err := s.do(ctx, client, client.B().Eval().Script(beatText).Numkeys(2).Key(names, abouts).Arg(args...).Build())
	if err == nil {
		nodes, peers, err = readPeers(reply)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("redis: beat: %w: %w", storage.ErrUnavailable, err)
	}
	return nodes, peers, nil
}

// Leave says that a node is not alive any more, so that the others need not wait for it to fall
// silent.
func (s *Store) Leave(ctx context.Context, node string) error {
	if err := s.checkConnected(); err != nil {
		return err
	}
	client := s.conns.Load().pipelined
	names, abouts := s.beatKeys()
	_, err := s.do(ctx, client, client.B().Zrem().Key(names).Member(node).Build())
	if err == nil {
		_, err = s.do(ctx, client, client.B().Hdel().Key(abouts).Field(node).Build())
	}
	if err != nil {
		return fmt.Errorf("redis: leave: %w: %w", storage.ErrUnavailable, err)
	}
	return nil
}

// beatKeys are in one slot: the second has the whole of the first for its tag.
func (s *Store) beatKeys() (names, abouts string) {
	names = s.prefix + "nodes"
	return names, s.prefix + "{" + names + "}"
}

func readPeers(reply rueidis.RedisMessage) (nodes int, peers []Peer, err error) {
	told, err := reply.AsStrSlice()
	if err != nil {
		return 0, nil, err
	}
	if len(told)%3 != 1 {
		return 0, nil, fmt.Errorf("an answer of %d parts", len(told))
	}
	if nodes, err = strconv.Atoi(told[0]); err != nil {
		return 0, nil, err
	}
	for rest := told[1:]; len(rest) > 0; rest = rest[3:] {
		ago, err := strconv.ParseFloat(rest[1], 64)
		if err != nil {
			return 0, nil, err
		}
		peers = append(peers, Peer{Name: rest[0], About: rest[2], Ago: max(0, time.Duration(ago*float64(time.Second)))})
	}
	return nodes, peers, nil
}
