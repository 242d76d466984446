package envoyratelimit

import (
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

// A counter that is over its limit stays so until its window ends: only then is the store asked again,
// or after longest, lest a store that an operator has emptied be believed to be full for a year.
//
// What is asked meanwhile is not counted. It would not change an answer, but that of a limit which is
// raised within the window.

const (
	longest = penstock.Instant(time.Minute / time.Microsecond)

	overShards = 64
	overMost   = 4096 // of a shard; about 100 bytes each
)

// overs remembers what is over its limit. The zero value is empty.
type overs struct{ shards [overShards]overShard }

type overShard struct {
	mu    sync.Mutex
	known map[counted]over
}

// A counted is a counter, under a limit.
type counted struct {
	subject penstock.Subject
	window  time.Duration
	count   int64
}

// An over is until when a counter is known to be over its limit, by this node's clock, and how far the
// store's is ahead of that.
type over struct{ until, ahead penstock.Instant }

// of picks by the end of the subject: it begins with its rule's tag.
func (o *overs) of(c *counted) *overShard { return &o.shards[c.subject[len(c.subject)-1]%overShards] }

// find tells whether a counter is over its limit for certain, and the store's time.
func (o *overs) find(c *counted, clock penstock.Instant) (now penstock.Instant, found bool) {
	s := o.of(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.known[*c]
	if found && clock >= known.until {
		delete(s.known, *c)
		return 0, false
	}
	return clock + known.ahead, found
}

// note remembers a counter that the store has found to be over. It was asked when the clock was sent,
// and has answered by heard: its window ends no sooner than if it had decided at once.
func (o *overs) note(c *counted, now, sent, heard penstock.Instant) {
	length := penstock.Instant(c.window.Microseconds())
	s := o.of(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[counted]over{}
	}
	for other := range s.known { // whichever comes first makes room
		if len(s.known) < overMost {
			break
		}
		delete(s.known, other)
	}
	s.known[*c] = over{until: sent + min(longest, length-now%length), ahead: now - heard}
}
