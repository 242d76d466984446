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

// Bounds of heartbeats, in bytes and in nodes.
const (
	MaxNodeName  = 64
	MaxNodeAbout = 512 // of a node's description of itself
	MaxPeers     = 200 // returned; all of them count
)

// A Peer is a node that sent a heartbeat recently. Other nodes write all its fields: they are bounded, but
// not otherwise checked.
type Peer struct {
	Name  string
	About string        // the node's description of itself; "" if it has none, as in versions that do not send one
	Ago   time.Duration // since its last heartbeat
}

// Beat records that a node is alive, with its description, and returns how many nodes are alive: those that
// sent a heartbeat within the time, in whole seconds, by the server's clock. It drops names that a wrong
// clock has dated far ahead. The peers are the nodes with the latest heartbeats, including this one.
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

// Leave records that a node has stopped, so that the others need not wait for its heartbeat to expire.
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

// beatKeys returns two keys in one slot: the hash tag of the second is the whole first.
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
