package redisstore

import (
	"github.com/penstock-io/penstock/storage"
)

// Zones are parts of a cluster that are likely to fail together, because masters own ranges of slots. These
// ranges change at run time, so zones are ranges of a fixed size, smaller than those of most masters. A
// circuit breaker that opens for a zone, and not for the whole cluster, keeps using the masters that still
// work.

// Zones returns how many zones there are in this mode.
func (m Mode) Zones() int {
	if m == Cluster {
		return 16
	}
	return 1
}

// ZoneOf returns the zone, from 0, in which a subject is decided.
func (m Mode) ZoneOf(who storage.Subject) int { return m.zoneAt(slotOf(who)) }

func (m Mode) zoneAt(slot int) int { return slot * m.Zones() / slots }

// A partError says which subjects a ticket across slots has failed for.
type partError struct {
	error
	who storage.Subject
}

func (e *partError) Subject() storage.Subject { return e.who }
func (e *partError) Unwrap() error            { return e.error }
