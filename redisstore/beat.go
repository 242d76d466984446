package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
)

var beatText = assemble("beat")

// MaxNodeName is how long a node's name can be, in bytes.
const MaxNodeName = 64

// Beat says that a node is alive and returns how many are: those that have beaten within the time,
// in whole seconds, by the server's clock. Names that a wrong clock has written far ahead are dropped.
func (s *Store) Beat(ctx context.Context, node string, within time.Duration) (nodes int, err error) {
	if node == "" || len(node) > MaxNodeName || within < time.Second {
		return 0, fmt.Errorf("%w beat: a name of %d bytes, must be from 1 to %d; within %v, must be at least 1s", penstock.ErrInvalid, len(node), MaxNodeName, within)
	}
	text, err := s.await(ctx, s.patience, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		seconds := strconv.Itoa(int(within / time.Second))
		return s.pipelined.Do(ctx, s.pipelined.B().Eval().Script(beatText).Numkeys(1).Key(s.prefix+"nodes").Arg(node, seconds).Build()).ToString()
	})
	if err == nil {
		nodes, err = strconv.Atoi(text)
	}
	if err != nil {
		return 0, fmt.Errorf("redis: beat: %w: %w", penstock.ErrUnavailable, err)
	}
	return nodes, nil
}
