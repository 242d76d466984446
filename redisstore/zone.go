package redisstore

import (
	"github.com/penstock-io/penstock/storage"
)

// Zones are parts of a cluster that are likely to fail together: masters have ranges of slots. Which,
// changes under way; so zones are ranges of a fixed size, smaller than those of most masters. Who gives
// up on a zone, and not on the cluster, goes on with the masters that are there.

// Zones is how many zones servers arranged in this mode have.
func (m Mode) Zones() int {
	if m == Cluster {
		return 16
	}
	return 1
}

// ZoneOf tells in which zone, from 0, a subject is decided.
func (m Mode) ZoneOf(who storage.Subject) int { return m.zoneAt(slotOf(who)) }

func (m Mode) zoneAt(slot int) int { return slot * m.Zones() / slots }

// A partError says for whom a ticket across slots has failed.
type partError struct {
	error
	who storage.Subject
}

func (e *partError) Subject() storage.Subject { return e.who }
func (e *partError) Unwrap() error            { return e.error }
